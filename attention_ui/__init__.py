"""The screen: what surrounds the pages, the board, figures, state and links. It draws; the numbers are `attention_core`'s."""
