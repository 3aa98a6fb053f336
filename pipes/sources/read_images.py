"""`read_images`: images whose folders are their classes."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, cast

from ..core.arrow import arrow_array
from ..core.checks import check_choice
from ..core.code import call_code
from ..core.context import Context, Work
from ..core.cursor import Json
from ..core.lazy import pa, pc
from ..core.operator import Ahead, Columns, Operator, Source, StageView
from ..core.rows import BlockRows, Indices, Row, index_array
from ..core.skips import OnError
from ..engine.ahead import REQUESTS
from ..errors import ArgumentTypeError, DataError, Origin, SourceError, redacted
from ..files.open_files import OpenTask, at_call_site, listed_files, read_whole_files
from ..media.images import Crop, Images, Mode
from ..ops.decode import Decode, DecodeFunction, Decoder
from ..pipe import Pipe
from ..storage.file import File
from ..storage.file_cache import FileCache, check_file_cache
from ..storage.filesystem import locate
from ..storage.listing import Listing, Selection

_EXTENSIONS = ("jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp")  # those of torchvision's ImageFolder


def read_images(
    root: str | os.PathLike[str],
    *,
    label: Literal["folder"] | None = "folder",
    images: Images = "numpy",
    mode: Mode = "RGB",
    resize: int | tuple[int, int] | None = None,
    fast: bool = False,
    crop: Crop | None = None,
    decoders: Mapping[str, DecodeFunction] | None = None,
    filesystem: object = None,
    cache: FileCache | None = None,
    concurrency: int = 1,
    on_error: OnError | None = None,
) -> Pipe[Row]:
    """Begin a pipe with the images in the folders of `root`, which are their classes, as in torchvision's ImageFolder.

    Element: `{"image": array, "label": int, "label_name": str, "path": str}`. The image is a uint8 array of height x
    width x channels; the label is the number of `label_name` among all classes in sorted order. Order: sorted by path.
    Length: the number of images; indexed. State: a position; it is refused if the files have changed. In the chain, a
    `decode` follows that gets the arguments from `images` to `decoders`; see there.

    Each folder in `root` is a class; its images may be in subfolders. Images end in .jpg, .jpeg, .png, .ppm, .bmp,
    .pgm, .tif, .tiff or .webp, in upper or lower case. Other files are left out, and so are names that begin with `.`
    or `_`. EXIF's orientation is not applied. `read_bytes` and `decode` read images in any other layout.

    Args:
        root: a folder: a local path or a URL.
        label: "folder"; None leaves out `label` and `label_name`, and then `root` needs no folders.
        images: "numpy" for arrays, "torch" for tensors of channels x height x width, "pil" for `PIL.Image.Image`.
        mode: converts images to "RGB", "L" (grey, one channel) or "RGBA".
        resize: the height and width of images in pixels, or the length of the shorter side.
        fast: decodes no more of a JPEG than `resize` needs, and resizes by torch.
        crop: `fp.media.RandomResizedCrop()` or `fp.media.CenterCrop()`: the part of each image that is resized.
        decoders: functions of bytes by extension, in place of Pillow. Files with these extensions are images too.
        filesystem: a pyarrow or fsspec file system for `root`; without it, `root` is a local path or a URL.
        cache: keeps what is read of remote files on a local disk; see `FileCache`.
        concurrency: how many images are decoded at the same time in each process, in threads; see `map`.
        on_error: what happens to an image that cannot be decoded; see `map`.

    Raises:
        SourceError: `root` is missing or holds no image; an image is in `root` itself; a file cannot be read; or a
            folder in `root` holds files but no image, so it may be a class or not. A folder without files is no class:
            object stores have no such folders.
        RowError: an image is damaged or truncated, or has more pixels than `PIL.Image.MAX_IMAGE_PIXELS` or more than 8
            bits per channel. The error names the file and its number among all images.

    Example:
        >>> import feedpipe as fp, pathlib, PIL.Image
        >>> for name in ("cat", "dog"):
        ...     pathlib.Path("pets", name).mkdir(parents=True)
        ...     PIL.Image.new("RGB", (4, 3)).save(f"pets/{name}/1.png")
        >>> row = fp.read_images("pets")[1]
        >>> row["image"].shape, row["label"], row["label_name"], row["path"]
        ((3, 4, 3), 1, 'dog', 'pets/dog/1.png')
    """
    if not isinstance(root, (str, os.PathLike)):
        raise ArgumentTypeError(f"`root` must be the path of a folder but got: {root!r}")
    decoder = Decoder(images, mode, resize, fast, crop, decoders, key="image")
    files = ReadImages(os.fspath(root), label, filesystem, cache=cache, more_extensions=tuple(decoders or ()))
    return Pipe.source(files).then(Decode(decoder, concurrency=concurrency, on_error=on_error))


@dataclass(frozen=True, eq=False, repr=False)
class ReadImages(Source):
    kind: ClassVar[str] = "read_images"
    columns: ClassVar[Columns] = Columns.LOSES

    # The root is not part of a state; `identity` has what must stay the same.
    root: str = field(repr=False)
    label: Literal["folder"] | None = "folder"
    filesystem: object = field(default=None, repr=False)
    listing: Listing | None = field(default=None, repr=False)
    classes: tuple[str, ...] = field(default=(), repr=False)
    more_extensions: tuple[str, ...] = field(default=(), kw_only=True, repr=False)
    """Those of the user's own decoders."""
    cache: FileCache | None = field(default=None, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_file_cache(self.cache)
        check_choice("label", self.label, ("folder", None))

    def call(self) -> str:
        options = call_code(self).removeprefix(f"{self.kind}(").removesuffix(")")
        cache = "" if self.cache is None else f"cache={self.cache!r}"
        return f"{self.kind}({', '.join(filter(None, [repr(redacted(self.root)), options, cache]))})"

    def resolve(self, stage: StageView) -> Operator:
        if self.listing is not None:
            return self
        try:
            op = self if self.cache is None else replace(self, cache=self.cache.renewed())
            return op._with_images(Selection(self.root, recursive=True, filesystem=self.filesystem).listing())
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def length(self, stage: StageView) -> int:
        return len(self._resolved_listing())

    def identity(self) -> Json:
        return {"images": len(self._resolved_listing()), "digest": self._resolved_listing().digest}

    def origin(self, stage: StageView, index: int, context: Context) -> Origin:
        return Origin(str(self._resolved_listing().paths[index]), index + 1, "image")

    def ahead(self) -> Ahead:
        return REQUESTS

    def begin(self, stage: StageView, indices: Indices, context: Context) -> Iterable[Work | None]:
        return (None if file.is_local() else OpenTask(file) for file in self._files(indices))

    def rows(self, stage: StageView, indices: Indices, context: Context) -> BlockRows:
        files = self._files(indices)
        opened = cast("list[OpenTask | None]", context.take_started(stage.name, indices))
        try:
            contents = read_whole_files(files, opened, threads=context.process.threads)
            return [self._row(data, file.path) for data, file in zip(contents, files, strict=True)]
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error.__cause__

    def _files(self, indices: Indices) -> list[File]:
        positions = arrow_array(index_array(indices))
        listing = self._resolved_listing()
        part = replace(listing, paths=listing.paths.take(positions), sizes=listing.sizes.take(positions))
        return listed_files(part, self.filesystem, self.cache)

    def _row(self, image: bytes, path: str) -> Row:
        if self.label is None:
            return {"image": image, "path": path}
        name = path[len(self._root_prefix()) :].partition("/")[0]
        return {"image": image, "label": bisect_left(self.classes, name), "label_name": name, "path": path}

    def _with_images(self, listing: Listing) -> ReadImages:
        """A copy of this operator with the images among the files, and their classes."""
        if not str(listing.paths[0]).startswith(self._root_prefix()):
            raise SourceError(f"{redacted(self.root)} is no folder; `read_bytes` reads files and globs")
        options = re.escape(locate(self.root, self.filesystem).options)
        extensions = (*_EXTENSIONS, *(each for each in self.more_extensions if each not in _EXTENSIONS))
        endings = "|".join(map(re.escape, extensions))
        mask = pc.match_substring_regex(listing.paths, rf"\.({endings}){options}$", ignore_case=True)
        image_listing = replace(listing, paths=listing.paths.filter(mask), sizes=listing.sizes.filter(mask))
        if not len(image_listing):
            raise SourceError(f"{redacted(self.root)} holds {len(listing)} files and no image: {', '.join(extensions)}")
        if self.label is None:
            return replace(self, listing=image_listing)
        classes = self._top_folders(image_listing.paths)
        if "" in classes:
            raise SourceError(
                f"{redacted(self.root)} holds images outside of folders, and folders are their classes; move them into "
                "a folder, or give `label=None`"
            )
        empty = sorted({*self._top_folders(listing.paths)} - {*classes, ""})
        if empty:
            raise SourceError(
                f"{redacted(self.root)} has folders without an image, such as {empty[0]!r}, and the numbers of classes "
                "depend on whether these are classes; remove them, or give `label=None`"
            )
        return replace(self, listing=image_listing, classes=tuple(classes))

    def _top_folders(self, paths: pa.LargeStringArray) -> list[str]:
        """The sorted names of the folders in the root that hold these files; "" for the root itself."""
        below: Any = pc.utf8_slice_codeunits(paths, len(self._root_prefix()))
        folders: Any = pc.replace_substring_regex(below, "/.*|^[^/]*$", "")
        return sorted(pc.unique(folders).to_pylist())

    def _root_prefix(self) -> str:
        """The text with which every path begins."""
        place = locate(self.root, self.filesystem)
        return place.root + (place.path if place.path.endswith("/") else place.path + "/")

    def _resolved_listing(self) -> Listing:
        assert self.listing is not None, "a run begins with `resolve`"
        return self.listing
