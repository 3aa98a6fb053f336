"""What tests take from `feedpipe.storage`; a module that moves changes this file alone."""

from __future__ import annotations

from feedpipe.storage import file_cache as file_cache
from feedpipe.storage import filesystem as filesystem
from feedpipe.storage import index as index
from feedpipe.storage import listing as listing
from feedpipe.storage import mapping as mapping
from feedpipe.storage import remote as remote
from feedpipe.storage import row_files as row_files
from feedpipe.storage import tasks as tasks
from feedpipe.storage.file_cache import BLOCK_BYTES as BLOCK_BYTES
from feedpipe.storage.filesystem import HDFS_UNKNOWN as HDFS_UNKNOWN
from feedpipe.storage.filesystem import RetryPolicy as RetryPolicy
from feedpipe.storage.filesystem import _connect as _connect
from feedpipe.storage.filesystem import describe as describe
from feedpipe.storage.filesystem import is_transient as is_transient
from feedpipe.storage.filesystem import locate as locate
from feedpipe.storage.filesystem import split_options as split_options
from feedpipe.storage.index import Index as Index
from feedpipe.storage.index import versions as versions
from feedpipe.storage.listing import Selection as Selection
from feedpipe.storage.listing import _part_regex as _part_regex
from feedpipe.storage.listing import expand_braces as expand_braces
from feedpipe.storage.manifest import Manifest as Manifest
from feedpipe.storage.manifest import manifest_schema as manifest_schema
from feedpipe.storage.manifest import read_manifest as read_manifest
from feedpipe.storage.manifest import write_manifest as write_manifest
from feedpipe.storage.remote import FIRST_REQUEST_BYTES as FIRST_REQUEST_BYTES
from feedpipe.storage.remote import REQUESTS_AHEAD as REQUESTS_AHEAD
from feedpipe.storage.remote import RemoteFile as RemoteFile
from feedpipe.storage.remote import RemoteRanges as RemoteRanges
from feedpipe.storage.remote import RemoteStream as RemoteStream
from feedpipe.storage.tasks import Task as Task
