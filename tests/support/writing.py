"""What tests take from `feedpipe.writing`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.writing._dataset_writer import MANIFEST as MANIFEST
from feedpipe.writing._dataset_writer import DatasetWriter as DatasetWriter
from feedpipe.writing._dataset_writer import Output as Output
from feedpipe.writing._dataset_writer import OutputFile as OutputFile
