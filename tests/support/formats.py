"""What tests take from `feedpipe.formats`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.formats import text as text
from feedpipe.formats.columns import common_type as common_type
from feedpipe.formats.protobuf import read_fields as read_fields
from feedpipe.formats.protobuf import write_field as write_field
from feedpipe.formats.protobuf import write_varint as write_varint
from feedpipe.formats.row_buffers import Buffers as Buffers
from feedpipe.formats.row_buffers import StoredRows as StoredRows
from feedpipe.formats.streams import ChunkSize as ChunkSize
from feedpipe.formats.text import LAST_RECORD_BYTES as LAST_RECORD_BYTES
from feedpipe.formats.text import TO_END as TO_END
from feedpipe.formats.text import Chunk as Chunk
from feedpipe.formats.text import ChunkReader as ChunkReader
from feedpipe.formats.text import TextPlace as TextPlace
