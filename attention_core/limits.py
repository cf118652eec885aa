"""Every limit in one place: how large, how long, how many, how often.

Each is enforced where a value comes in, in the core or in the state of a session, and never by a control
alone, because whoever writes a link or a message by hand passes by the controls. What lies beyond a limit is
refused in one sentence, left out, or taken more slowly; `tests/test_limits.py` goes beyond each of them.
"""

from __future__ import annotations

# numbers
LARGEST_NUMBER = 1e60  # so that a product of four numbers on the way to a score stays finite
LONGEST_NUMBER = 64  # letters of a number as it is typed

# matrices
LARGEST_SIDE = 16  # rows and columns on the board: n, d_model, d_k and d_v
LARGEST_MAP = 256  # rows and columns of what is drawn without numbers
LARGEST_DRAWING = 64  # rows and columns of a mask drawn by hand
LARGEST_BLOCK = 64  # rows and columns that can be pasted
LONGEST_BLOCK = 100_000  # letters that can be pasted

# text
MOST_TOKENS = 16
LONGEST_TOKEN = 40  # letters
LONGEST_LINE = 7_000  # letters of a line of tokens: sixteen of forty, every letter escaped

# links
LARGEST_SEED = 9_999
LONGEST_MASK = 2_000  # letters that describe a mask
LONGEST_CODE = 20_000  # letters; sixteen by sixteen numbers in all seven matrices need fewer
LONGEST_CHOICE = 40  # letters of what a lesson asks
MOST_CHOICES = 100

# files from outside
LARGEST_FILE = 256_000  # bytes
LARGEST_MEMBER = 64_000  # bytes once unpacked
MOST_MEMBERS = 32
LONGEST_HEADER = 2_000  # of an array

# lessons
MOST_DEVICES = 64  # that share a calculation
LARGEST_POOL = 4096  # pages of a cache, and slots of a page
LARGEST_COUNTED = 1 << 24  # any size in a count of operations and bytes
MOST_COUNTED = 1 << 40  # tokens, where the count is asked how far it goes
MOST_NEW = 4096  # tokens in one timeline
LARGEST_MODEL = {"d_model": 64, "n_heads": 8, "n_layers": 2, "context": 64}  # that is trained
LONGEST_TEXT = 4_000  # letters that it learns from
LARGEST_VOCABULARY = 256
LARGEST_BATCH = 64
MOST_STEPS = 2_000  # of training altogether
MOST_AT_ONCE = 200  # steps in one run
MOST_WRITTEN = 400  # tokens that a trained model writes

# a session
MOST_UNDO = 200  # changes that can be taken back
MOST_OPERATIONS = 500  # of one message from the board; the browser tells again what was not taken

# a server
LARGEST_MESSAGE = 1_000_000  # bytes from a browser; no reader's change is longer
DEEPEST_MESSAGE = 50  # lists within lists of what a component tells
LONGEST_WHOLE = 300  # digits of a whole number in what a component tells
MOST_READERS = 300  # at once in one process; ATTENTION_MOST_READERS overrides it
MOST_SILENT = 300  # connections that have not said anything yet
SHARE = 0.25  # of the time that a server works for one reader who asks without a pause
ALONE = 10.0  # seconds without a change by anybody else, after which nothing of his is held back
AT_A_STRETCH = 4.0  # seconds of such asking that are answered at once
LONGEST_WAIT = 3.0  # seconds that the next change of such a reader is held back
LONGEST_RUN = 10.0  # seconds that it waits for the run before it
MOST_WAITING = 500  # messages of such a reader that are held back, and twice LARGEST_MESSAGE altogether
EVERY = 0.04  # seconds between the messages of such a reader
