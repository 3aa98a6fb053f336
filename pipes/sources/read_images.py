"""`read_images`: images, whose folders are their classes."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import numpy as np

from ..core.checks import check_choice
from ..core.code import call_code
from ..core.context import Context
from ..core.cursor import Json
from ..core.operator import Columns, Operator
from ..core.rows import BlockRows, Indices, Row
from ..engine.apply import map_until_error
from ..engine.stage import Stage
from ..errors import ArgumentTypeError, DataError, Origin, SourceError, redacted, with_call_site
from ..formats import images
from ..formats.decoders import Mode
from ..ops.parsing._open_files import OpenTask, at_call_site, listed_files, read_whole_files
from ..pipe import Pipe
from ..storage.file import File
from ..storage.filesystem import locate
from ..storage.listing import Listing, Selection

if TYPE_CHECKING:
    import pyarrow as pa

_EXTENSIONS = ("jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp")  # those of torchvision's ImageFolder


@dataclass(frozen=True, eq=False)
class ReadImages(Operator):
    kind: ClassVar[str] = "read_images"
    columns: ClassVar[Columns] = Columns.LOSES
    waits: ClassVar[bool] = True

    # Where the files lie is no part of a state; `identity` has what counts.
    root: str = field(repr=False)
    label: Literal["folder"] | None = "folder"
    mode: Mode = "RGB"
    filesystem: object = field(default=None, repr=False)
    listing: Listing | None = field(default=None, repr=False)
    classes: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        check_choice("label", self.label, ("folder", None))
        check_choice("mode", self.mode, images.MODES)

    def call(self) -> str:
        options = call_code(self).removeprefix(f"{self.kind}(")
        return f"{self.kind}({redacted(self.root)!r}{', ' if options != ')' else ''}{options}"

    def resolve(self, stage: Stage) -> Operator:
        if self.listing is not None:
            return self
        try:
            return self._found(Selection(self.root, recursive=True, filesystem=self.filesystem).listing())
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error

    def length(self, stage: Stage) -> int:
        return len(self._listed())

    def identity(self) -> Json:
        return {"images": len(self._listed()), "digest": self._listed().digest}

    def origin(self, stage: Stage, index: int, context: Context) -> Origin:
        return Origin(str(self._listed().paths[index]), 1)

    def begin(self, stage: Stage, index: int, context: Context) -> OpenTask | None:
        (file,) = self._files(range(index, index + 1))
        return None if file.is_local() else OpenTask(file)

    def rows(self, stage: Stage, indices: Indices, context: Context) -> BlockRows:
        opened = cast("OpenTask | None", stage.begun(indices, context))
        files = self._files(indices) if opened is None else [opened.file]
        try:
            data = list(read_whole_files(files, opened, threads=context.threads))
        except (SourceError, DataError) as error:
            raise at_call_site(error, stage) from error
        made, failure = map_until_error(partial(images.decode_array, mode=self.mode), data)
        if failure is not None:
            raise stage.failed_on(failure, Origin(files[len(made)].path, 1))
        return [self._row(image, file.path) for image, file in zip(made, files, strict=True)]

    def _files(self, indices: Indices) -> list[File]:
        chosen: Any = np.asarray(indices, np.int64)
        listing = self._listed()
        part = replace(listing, paths=listing.paths.take(chosen), sizes=listing.sizes.take(chosen))
        return listed_files(part, self.filesystem)

    def _row(self, image: object, path: str) -> Row:
        if self.label is None:
            return {"image": image, "path": path}
        name = path[len(self._prefix()) :].partition("/")[0]
        return {"image": image, "label": bisect_left(self.classes, name), "label_name": name, "path": path}

    def _found(self, listing: Listing) -> ReadImages:
        """This with the images among all files, and their classes."""
        import pyarrow.compute as pc

        if not str(listing.paths[0]).startswith(self._prefix()):
            raise SourceError(f"{redacted(self.root)} is no folder; for files and globs there is `read_bytes`")
        options = re.escape(locate(self.root, self.filesystem).options)
        kept = pc.match_substring_regex(listing.paths, rf"\.({'|'.join(_EXTENSIONS)}){options}$", ignore_case=True)
        found = replace(listing, paths=listing.paths.filter(kept), sizes=listing.sizes.filter(kept))
        if not len(found):
            raise SourceError(
                f"{redacted(self.root)} holds {len(listing)} files and no image: {', '.join(_EXTENSIONS)}"
            )
        if self.label is None:
            return replace(self, listing=found)
        classes = self._folders(found.paths)
        if "" in classes:
            raise SourceError(
                f"{redacted(self.root)} holds images outside of folders, and folders are their classes; put them into "
                "one, or give `label=None`"
            )
        empty = sorted({*self._folders(listing.paths)} - {*classes, ""})
        if empty:
            raise SourceError(
                f"{redacted(self.root)} has folders without an image, such as {empty[0]!r}, and the numbers of classes "
                "depend on whether these are some; remove them, or give `label=None`"
            )
        return replace(self, listing=found, classes=tuple(classes))

    def _folders(self, paths: pa.LargeStringArray) -> list[str]:
        """The names of the folders right below the root that hold these files, sorted; "" for the root itself."""
        import pyarrow.compute as pc

        below: Any = pc.utf8_slice_codeunits(paths, len(self._prefix()))
        folders: Any = pc.replace_substring_regex(below, "/.*|^[^/]*$", "")
        return sorted(pc.unique(folders).to_pylist())

    def _prefix(self) -> str:
        """What every path begins with."""
        place = locate(self.root, self.filesystem)
        return place.root + (place.path if place.path.endswith("/") else place.path + "/")

    def _listed(self) -> Listing:
        assert self.listing is not None, "a run begins with `resolve`"
        return self.listing


def read_images(
    root: str | os.PathLike[str],
    *,
    label: Literal["folder"] | None = "folder",
    mode: Mode = "RGB",
    filesystem: object = None,
) -> Pipe[Row]:
    """Begin a pipe with the images below a folder, whose folders are their classes, as in torchvision's ImageFolder.

    Element: `{"image": array, "label": int, "label_name": str, "path": str}`; the image is a uint8 array of height x
    width x channels, the label the number of `label_name` among all classes in sorted order. Order: sorted by path.
    Length: the number of images; indexed. State: a position; it is refused where the files have changed.

    A class is a folder right below `root`; images may lie in folders below. Images are files that end, in any case, in
    .jpg, .jpeg, .png, .ppm, .bmp, .pgm, .tif, .tiff or .webp; other files are left out, and so are names that begin
    with `.` or `_`. Images lie as in the file: an orientation that EXIF asks for is not applied. For anything else
    there are `read_bytes` and `decode`.

    Args:
        root: a folder: a local path or a URL.
        label: "folder"; None leaves `label` and `label_name` out, and `root` needs no folders.
        mode: "RGB", "L" (grey, one channel) or "RGBA": what images are converted to.
        filesystem: a pyarrow or fsspec file system that `root` is on; else it is a local path or a URL.

    Raises:
        SourceError: `root` is missing or holds no image; a folder right below it holds files but no image, so that it
            is open whether it is a class (one without any file is none: object stores have no such folders); an image
            lies in `root` itself; a file cannot be read.
        RowError: an image is damaged or truncated, has more pixels than `PIL.Image.MAX_IMAGE_PIXELS`, or more than 8
            bits a channel; names the file.

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
        raise ArgumentTypeError(with_call_site(f"`root` must be the path of a folder but got: {root!r}"))
    return cast("Pipe[Row]", Pipe.source(ReadImages(os.fspath(root), label, mode, filesystem)))
