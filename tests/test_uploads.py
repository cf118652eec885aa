"""Files from outside (case 32): what is read, and what is refused in one sentence with nothing loaded."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from attention_core import uploads
from attention_core.limits import LARGEST_FILE, LARGEST_MEMBER, MOST_MEMBERS
from attention_core.uploads import read_csv, read_npz

NAMES = ("scores", "weights")


def saved(*, packed: bool = False, **arrays) -> bytes:
    stream = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(stream, **arrays)
    return stream.getvalue()


def zipped(method: int = zipfile.ZIP_DEFLATED, **files: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(f"{name}.npy", data)
    return stream.getvalue()


def array_file(header: str, content: bytes = b"") -> bytes:
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


class Trap:
    """An object that would leave a file behind if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (Path.touch, (self.path,))


def refused(data: bytes, match: str) -> str:
    """The sentence, after making sure that it is one."""
    with pytest.raises(ValueError, match=match) as error:
        read_npz("mine.npz", data, NAMES)
    said = str(error.value)
    assert "\n" not in said and len(said) < 250
    return said


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["float64", "float32", "float16", "int32", "uint8", "bool", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_numpy_saves_is_read(packed, kind, order):
    a = np.asarray(np.arange(12).reshape(3, 4), dtype=kind, order=order)
    found = read_npz("mine.npz", saved(packed=packed, scores=a, other=a), NAMES)
    assert list(found) == ["scores"] and found["scores"].dtype == np.float64
    np.testing.assert_array_equal(found["scores"], a.astype(np.float64))


def test_infinity_and_more_axes_are_numbers_too():
    a = np.array([[[1.0, -np.inf], [np.nan, 2.0]]])
    np.testing.assert_array_equal(read_npz("m", saved(weights=a), NAMES)["weights"], a)


def test_pickled_objects_are_refused_and_not_run(tmp_path):
    mark = tmp_path / "run"
    objects = np.array([Trap(mark), None], dtype=object)
    refused(saved(scores=objects), "Python objects")
    refused(zipped(scores=pickle.dumps(Trap(mark))), "not an array as NumPy saves it")
    assert not mark.exists()


@pytest.mark.parametrize("dtype", ["<U4", "S3", "datetime64[D]", [("a", "f8")], "complex128"])
def test_what_is_no_number_is_refused(dtype):
    refused(saved(scores=np.zeros(3, dtype=dtype)), "numbers are needed")


def test_a_zip_bomb_is_refused_by_its_directory_before_anything_is_unpacked(monkeypatch):
    data = zipped(scores=array_file("{}") + bytes(50_000_000))
    assert len(data) < LARGEST_FILE
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("unpacked"))
    assert "50,000," in refused(data, "unpacks to")


def test_a_zip_bomb_that_lies_about_its_size_is_not_unpacked_beyond_the_limit():
    content = array_file("{'descr': '<f8', 'fortran_order': False, 'shape': (2, 2), }") + bytes(5_000_000)
    data = bytearray(zipped(scores=content))
    true, false = struct.pack("<L", len(content)), struct.pack("<L", 160)
    assert data.count(true) == 2
    read = []
    original = zipfile.ZipExtFile.read

    def counted(self, n=-1):
        got = original(self, n)
        read.append(len(got))
        return got

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(zipfile.ZipExtFile, "read", counted)
        refused(bytes(data.replace(true, false)), "nothing was loaded")
    assert sum(read) <= LARGEST_MEMBER + 1


def test_no_more_than_the_limit_is_read_whatever_the_directory_says(monkeypatch):
    data = zipped(scores=bytes(LARGEST_MEMBER + 10))
    monkeypatch.setattr(uploads, "_check_directory", lambda *_: None)
    refused(data, f"more than {LARGEST_MEMBER:,} bytes")


def test_very_many_members_are_refused():
    refused(zipped(**{f"m{i}": b"" for i in range(MOST_MEMBERS + 1)}), f"holds {MOST_MEMBERS + 1} files")


def test_a_file_of_50_mb_is_refused_before_it_is_opened(monkeypatch):
    monkeypatch.setattr(zipfile, "ZipFile", lambda *_: pytest.fail("opened"))
    refused(bytes(50_000_000), "50,000,000 bytes, and at most 256,000 are read")
    with pytest.raises(ValueError, match="50,000,000 bytes"):
        read_csv("mine.csv", b"1" * 50_000_000, (1, 1))


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"not a zip", b"1,2\n3,4", zlib.compress(b"a")])
def test_what_is_no_archive_is_refused(data):
    refused(data, "cannot be read as a NumPy archive")


def test_a_damaged_archive_is_refused():
    data = bytearray(saved(packed=True, scores=np.arange(64.0).reshape(8, 8)))
    for place in range(40, len(data), 7):
        broken = bytes(data[:place]) + bytes([data[place] ^ 255]) + bytes(data[place + 1 :])
        try:
            found = read_npz("mine.npz", broken, NAMES)
        except ValueError as reason:
            assert "nothing was loaded" in str(reason)
        else:
            np.testing.assert_array_equal(found["scores"], np.arange(64.0).reshape(8, 8))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_unusual_packing_is_refused(method):
    refused(zipped(method, scores=array_file("{}")), "unusual way")


@pytest.mark.parametrize("shape", ["(1000000, 1000000)", "(-1, -4)", "(3,)", "(2, 2.5)", "'ab'"])
def test_a_header_that_promises_something_else_is_refused(shape):
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    refused(zipped(scores=array_file(header, bytes(32))), "nothing was loaded")


def test_a_header_is_no_program(tmp_path):
    mark = tmp_path / "run"
    refused(zipped(scores=array_file(f"__import__('pathlib').Path({str(mark)!r}).touch()")), "not an array")
    assert not mark.exists()


def test_an_archive_without_a_known_name_is_refused():
    refused(saved(attention=np.zeros((2, 2))), "none of the arrays scores, weights")


MATRIX = np.array([[1.0, -2.5, 1e-3], [-np.inf, 0.0, 1 / 3]])


@pytest.mark.parametrize("text", [
    "1,-2.5,1e-3\n-inf,0,0.3333333333333333\n",
    "1;-2,5;0,001\n-inf;0;0,3333333333333333",
    "1\t-2.5\t.001\r\n-inf\t0\t1/3\r\n",
    "1.000000000000000000e+00 -2.500000000000000000e+00 1.000000000000000021e-03\n"
    "-inf 0.000000000000000000e+00 3.333333333333333148e-01\n",
    "query ↓ key →,1 the,2 cat,3 sat\n1 the,1.0,-2.5,0.001\n2 cat,-inf,0.0,0.3333333333333333\n",
    ",0,1,2\n0,1.0,-2.5,0.001\n1,-inf,0.0,0.3333333333333333\n",
    "\ufeff1,-2.5,.001\n−∞,0,1/3",
])  # fmt: skip
def test_csv_is_read_as_programs_write_it(text):
    np.testing.assert_array_equal(read_csv("s.csv", text.encode(), (2, 3)), MATRIX)


def test_the_shape_decides_whether_a_comma_separates():
    np.testing.assert_array_equal(read_csv("s.csv", b"1,2\n3,4", (2, 2)), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(read_csv("s.csv", b"1,2\n3,4", (2, 1)), [[1.2], [3.4]])


def test_what_savetxt_writes_comes_back_exactly(tmp_path):
    a = np.random.default_rng(0).standard_normal((4, 3))
    for options in ({}, {"delimiter": ","}, {"delimiter": ";", "fmt": "%.17g"}):
        np.savetxt(tmp_path / "a.csv", a, **options)
        np.testing.assert_array_equal(read_csv("a.csv", (tmp_path / "a.csv").read_bytes(), (4, 3)), a)


@pytest.mark.parametrize(("data", "said"), [
    (b"1,2,x\n3,4,5", "row 1, column 3: .x. is not a number"),
    (b"hello, this is text", "is expected"),
    (b"1,2,3\n4,5", "has rows of different lengths"),
    (b"1,2,3\n4,5,6\n7,8,9\n1,1,1", "is 4 × 3, and 2 × 3 is expected"),
    (b"1,2\n3,4", "is 2 × 2, and 2 × 3 is expected"),
    (b"", "the block is empty"),
    (b"\x00\xff\xfe", "not a text file"),
    (b"PK\x03\x04\x99", "not a text file"),
    (b"1,2,=1+1\n3,4,5", "is not a number"),
    (b"1,2,1e999\n3,4,5", "too large|not a number|float64"),
    (b"1 2 3\n" * 3000, "at most 64"),
    (b'"', "is expected|nothing was loaded"),
])  # fmt: skip
def test_a_csv_that_cannot_be_read_is_refused_in_one_sentence(data, said):
    with pytest.raises(ValueError, match=said) as error:
        read_csv("s.csv", data, (2, 3))
    assert "\n" not in str(error.value) and "nothing was loaded" in str(error.value)


def test_a_long_or_strange_file_name_is_shortened():
    with pytest.raises(ValueError) as error:
        read_npz("a\n\u202e" + "b" * 300, b"", NAMES)
    assert len(str(error.value)) < 140 and "\n" not in str(error.value) and "\u202e" not in str(error.value)


@pytest.mark.parametrize(
    "header", ["{'descr': '<f8', \x00", "(" * 900, "{'descr': ", "lambda: 0", "1" * 1_500]
)
def test_a_header_that_python_itself_cannot_read_is_refused_in_a_sentence(header):
    refused(zipped(scores=array_file(header)), "is not an array as NumPy saves it")
