"""Reads datasets that `tessera prepare` or Megatron-LM wrote."""

import numpy as np

# Megatron-LM's codes (launch/data/indexed/indexed_format.h).
_DTYPES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
_HEADER_BYTES = 34


class Dataset:
    """The sequences of PREFIX.bin and PREFIX.idx. Both are memory-mapped.

    tokens     all tokens, in order
    lengths    (sequences) tokens of each sequence
    documents  (documents + 1) the first sequence of each document, then the number of sequences
    """

    def __init__(self, prefix):
        path = f"{prefix}.idx"
        with open(path, "rb") as file:
            header = file.read(_HEADER_BYTES)
        version = int.from_bytes(header[9:17], "little")
        if len(header) < _HEADER_BYTES or header[:9] != b"MMIDIDX\0\0" or version != 1 or header[17] not in _DTYPES:
            raise ValueError(f"{path} is not an index of tokens in Megatron-LM's format, version 1")
        dtype = np.dtype(_DTYPES[header[17]])
        sequences = int.from_bytes(header[18:26], "little")
        entries = int.from_bytes(header[26:34], "little")
        index = np.memmap(path, "u1", "r", offset=_HEADER_BYTES)
        if index.size != 12 * sequences + 8 * entries:
            raise ValueError(f"{path} has {index.size} bytes after its header, which does not fit "
                             f"{sequences} sequences and {entries} document indices")
        self.lengths = index[: 4 * sequences].view("<i4")
        self._starts = index[4 * sequences : 12 * sequences].view("<i8") // dtype.itemsize
        self.documents = index[12 * sequences :].view("<i8")
        self.tokens = np.memmap(f"{prefix}.bin", dtype, "r")

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, sequence):
        """The tokens of one sequence, (length), without a copy."""
        start = self._starts[sequence]
        return self.tokens[start : start + self.lengths[sequence]]
