"""Images: from the bytes of a file to the pixels of the picture, or of a part of it, in one size."""

from __future__ import annotations

import io
import logging
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from ..core.checks import check_choice, check_int, check_torch
from ..errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

log = logging.getLogger("feedpipe")

Images: TypeAlias = Literal["numpy", "pil", "torch"]
Mode: TypeAlias = Literal["RGB", "L", "RGBA", "P"]
Pixels: TypeAlias = npt.NDArray[np.uint8]

EXTENSIONS = ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm", "bmp", "webp", "gif", "tif", "tiff")

# Pillow tries no others, whatever the bytes are: some of its formats start programs.
_FORMATS = ("JPEG", "PNG", "PPM", "BMP", "WEBP", "GIF", "TIFF")

_TRIES = 10
DRAWS = 2 * _TRIES + 3
"""The random numbers of a crop, in [0, 1). Their number is fixed, so that equal images of a row get the same crop."""

Draws: TypeAlias = npt.NDArray[np.float64]


class Box(NamedTuple):
    """A part of an image, in pixels."""

    top: int
    left: int
    height: int
    width: int

    def scaled(self, height: int, width: int, to: tuple[int, int]) -> Box:
        """The same part, to the nearest pixel, of an image of this height and width that is decoded at another size."""
        y, x = to[0] / height, to[1] / width
        h, w = max(1, round(self.height * y)), max(1, round(self.width * x))
        return Box(min(round(self.top * y), to[0] - h), min(round(self.left * x), to[1] - w), h, w)

    def of(self, pixels: Pixels) -> Pixels:
        return pixels[self.top : self.top + self.height, self.left : self.left + self.width]


@dataclass(frozen=True)
class RandomResizedCrop:
    """A random part of an image, for `decode(crop=...)`; as torchvision's `RandomResizedCrop`, with other draws.

    The draws depend on the seed, the epoch and the position of the row, as those of `map(rng=True)`. All images of a
    row that have the same size get the same crop.

    Args:
        scale: the least and the largest area of the part, as shares of the area of the image.
        ratio: the least and the largest ratio of its width to its height. If ten tries give no part that fits into the
            image, it is the largest one in the middle with a ratio in this range.
        flip: the probability that the part is mirrored, left to right.

    Raises:
        ArgumentError: `scale` is no range in (0, 1], `ratio` none above 0, or `flip` not in [0, 1].

    Example:
        >>> import feedpipe as fp, io, PIL.Image
        >>> PIL.Image.new("RGB", (640, 480)).save(jpeg := io.BytesIO(), "JPEG")
        >>> rows = fp.from_sequence([{"jpg": jpeg.getvalue()}])
        >>> rows.decode(resize=(224, 224), crop=fp.media.RandomResizedCrop(flip=0.5), fast=True)[0]["jpg"].shape
        (224, 224, 3)
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _range("scale", self.scale, 1.0))
        object.__setattr__(self, "ratio", _range("ratio", self.ratio, math.inf))
        object.__setattr__(self, "flip", _share("flip", self.flip))

    def box(self, height: int, width: int, draws: Draws) -> Box:
        """The part of an image of this size."""
        low, high = map(math.log, self.ratio)
        for number in range(_TRIES):
            area = height * width * (self.scale[0] + draws[2 * number] * (self.scale[1] - self.scale[0]))
            ratio = math.exp(low + draws[2 * number + 1] * (high - low))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                top, left = draws[-3] * (height - h + 1), draws[-2] * (width - w + 1)
                return Box(int(top), int(left), h, w)
        return _middle(height, width, min(max(width / height, self.ratio[0]), self.ratio[1]))

    def is_flipped(self, draws: Draws) -> bool:
        return bool(draws[-1] < self.flip)


@dataclass(frozen=True)
class CenterCrop:
    """The middle of an image, for `decode(crop=...)`: the largest part that has the shape of `resize`, or less.

    `decode(resize=(224, 224), crop=fp.media.CenterCrop(224 / 256))` gives what torchvision's `Resize(256)` and
    `CenterCrop(224)` give, but for rounding.

    Args:
        part: the height and width of the part, as a share of those of the largest one.

    Raises:
        ArgumentError: `part` is not in (0, 1].

    Example:
        >>> import feedpipe as fp, io, PIL.Image
        >>> PIL.Image.new("RGB", (640, 480)).save(jpeg := io.BytesIO(), "JPEG")
        >>> rows = fp.from_sequence([{"jpg": jpeg.getvalue()}])
        >>> rows.decode(resize=(224, 224), crop=fp.media.CenterCrop(0.875))[0]["jpg"].shape
        (224, 224, 3)
    """

    part: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "part", _share("part", self.part))
        if self.part == 0:
            raise ArgumentError("`part` must be > 0 but got: 0")


Crop: TypeAlias = RandomResizedCrop | CenterCrop


def _middle(height: int, width: int, ratio: float, part: float = 1.0) -> Box:
    """The part in the middle of an image whose width is `ratio` times its height."""
    h, w = (height, height * ratio) if width > height * ratio else (width / ratio, width)
    box_height, box_width = (min(whole, max(1, round(side * part))) for side, whole in ((h, height), (w, width)))
    return Box((height - box_height) // 2, (width - box_width) // 2, box_height, box_width)


def _range(name: str, value: object, most: float) -> tuple[float, float]:
    try:
        low, high = map(float, cast("Any", value))
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"`{name}` must be a pair of numbers but got: {value!r}") from None
    if not (0 < low <= high <= most and high < math.inf):
        limit = "" if most == math.inf else f" and <= {most:g}"
        raise ArgumentError(f"`{name}` must be a least and a largest number, > 0{limit}, but got: {value!r}")
    return low, high


def _share(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArgumentTypeError(f"`{name}` must be a number but got: {value!r}")
    if not 0 <= value <= 1:
        raise ArgumentError(f"`{name}` must be >= 0 and <= 1 but got: {value!r}")
    return float(value)


@dataclass(frozen=True)
class ImageForm:
    """What images become; the arguments of `decode`."""

    images: Images = "numpy"
    mode: Mode = "RGB"
    resize: int | tuple[int, int] | None = None
    fast: bool = False
    crop: Crop | None = None

    def __post_init__(self) -> None:
        check_choice("images", self.images, ("numpy", "pil", "torch"))
        check_choice("mode", self.mode, ("RGB", "L", "RGBA", "P"))
        if self.images == "torch":
            check_torch("Images become tensors", '; `images="numpy"` gives arrays without it')
        object.__setattr__(self, "resize", _check_size(self.resize))
        if self.fast and self.resize is None:
            raise ArgumentError(
                "`fast` needs `resize`, the size at which a JPEG is decoded; give both, or leave out `fast`"
            )
        if self.crop is None:
            return
        if not isinstance(self.crop, (RandomResizedCrop, CenterCrop)):
            raise ArgumentTypeError(
                "`crop` must be `fp.media.RandomResizedCrop(...)` or `fp.media.CenterCrop(...)` but got: "
                f"{self.crop!r}; a function in `map` makes other crops"
            )
        if not isinstance(self.resize, tuple):
            raise ArgumentError(
                f"`crop` needs `resize=(height, width)`, the size that the crop becomes, but `resize` is: {self.resize}"
            )

    def box(self, height: int, width: int, draws: Draws | None) -> Box:
        """The part of an image of this size that is used."""
        if self.crop is None:
            return Box(0, 0, height, width)
        if isinstance(self.crop, CenterCrop):
            to = cast("tuple[int, int]", self.resize)
            return _middle(height, width, to[1] / to[0], self.crop.part)
        assert draws is not None, "a random crop has draws"
        return self.crop.box(height, width, draws)

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of a part of this size, once it is resized."""
        if self.resize is None:
            return height, width
        if isinstance(self.resize, tuple):
            return self.resize
        shorter = min(height, width)
        return self.resize * height // shorter, self.resize * width // shorter

    @property
    def is_random(self) -> bool:
        return isinstance(self.crop, RandomResizedCrop)

    def is_flipped(self, draws: Draws | None) -> bool:
        return draws is not None and isinstance(self.crop, RandomResizedCrop) and self.crop.is_flipped(draws)


def _check_size(value: object) -> int | tuple[int, int] | None:
    """Check `resize`."""
    if value is None or isinstance(value, int):
        return value if value is None else check_int("resize", value, least=1)
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ArgumentTypeError(f"`resize` must be an int, or a pair of height and width, but got: {value!r}")
    height, width = (check_int(f"resize[{number}]", side, least=1) for number, side in enumerate(value))
    return height, width


def decode_image(data: bytes, form: ImageForm, draws: Draws | None = None) -> Image | Pixels | torch.Tensor:
    """Decode the first image in the bytes of a file. It is not rotated by its EXIF orientation.

    Returns:
        A PIL image; a writable array of height x width x channels; or a tensor of channels x height x width.

    Raises:
        ValueError: it is no image, has more pixels than Pillow's limit, or more than 8 bits a channel.
        Exception: one of Pillow's: it is damaged or truncated.
    """
    from PIL.Image import fromarray

    opened: Image | None = None
    if (head := _jpeg_head(data, form)) is None:
        opened = _opened(data, form.mode)
        head = opened.height, opened.width
    height, width = head
    box = form.box(height, width, draws)
    size = form.size(box.height, box.width)
    factor = 1  # the decoder leaves out what a smaller image does not need; only JPEG can
    if form.fast and max(height, width) >= _LEAST_SCALED:
        fits = min(box.height // size[0], box.width // size[1])
        factor = next((each for each in (8, 4, 2) if fits >= each), 1)
    decoded = -(-height // factor), -(-width // factor)
    source: Image | Pixels | None = None
    if opened is None:
        source = _jpeg_pixels(_simplejpeg(), data, form.mode, None if factor == 1 else decoded)
    if source is None:
        image = opened or _opened(data, form.mode)
        if form.fast:
            image.draft(form.mode, (width // factor, height // factor))
        decoded = image.height, image.width
        source = _converted(image, form.mode)
    box = box.scaled(height, width, decoded)
    is_flipped = form.is_flipped(draws)
    is_done = box == (0, 0, *size) == (0, 0, *decoded) and not is_flipped

    if not is_done and form.fast and form.images != "pil" and form.mode in ("RGB", "L") and _has_torch():
        from ..torch.images import resized

        pixels = source if isinstance(source, np.ndarray) else np.array(source)
        pixels = resized(box.of(pixels), size, is_flipped)
    elif is_done and isinstance(source, np.ndarray):
        pixels = source
    else:
        if isinstance(source, np.ndarray):  # Pillow has grey pixels without the axis of channels
            source = fromarray(source[:, :, 0] if source.shape[2] == 1 else source)
        picture = source
        picture = picture if is_done else _resized(picture, box, size, is_flipped)
        if form.images == "pil":
            return picture
        pixels = np.array(picture)
    pixels = pixels if pixels.ndim == 3 else pixels[:, :, np.newaxis]
    if form.images == "numpy":
        return pixels
    from ..torch.images import channels_first

    return channels_first(pixels)


def _opened(data: bytes, mode: Mode) -> Image:
    """The image, of which only the head is read yet."""
    from PIL import Image, UnidentifiedImageError

    try:
        image = Image.open(io.BytesIO(data), formats=_FORMATS)
    except UnidentifiedImageError as error:
        raise ValueError(f"it is damaged, or no image of {', '.join(_FORMATS)}") from error
    pixels, limit = image.width * image.height, Image.MAX_IMAGE_PIXELS
    if limit is not None and pixels > limit:
        raise ValueError(f"{pixels} pixels, and `PIL.Image.MAX_IMAGE_PIXELS` allows {limit}: it may be a bomb")
    if image.mode[0] in "IF" or _has_wide_channels(image):
        raise ValueError(f"its pixels are of mode {_raw_mode(image)}, and conversion to 8 bits would cut them off")
    if mode == "P" and image.mode not in ("P", "L", "1"):
        raise ValueError(f'its pixels are of mode {image.mode}, and `mode="P"` takes numbers of colours or of grey')
    if _has_others(image):
        log_once(
            f"a {image.format} image has several pages or frames, and only the first one is decoded; a function in "
            "`map`, with `PIL.ImageSequence`, reads the others"
        )
    if mode == "L" and image.mode == "P":
        log_once('`decode` makes grey of the colours of a palette; `mode="P"` gives their numbers, as masks need them')
    return image


def _converted(image: Image, mode: Mode) -> Image:
    if mode == "P":
        return image if image.mode == "P" else image.convert("L")
    # A direct conversion warns that the transparent colour is lost.
    transparent = mode in ("RGB", "L") and "transparency" in image.info
    return (image.convert("RGBA") if transparent else image).convert(mode)


def _resized(picture: Image, box: Box, size: tuple[int, int], is_flipped: bool) -> Image:
    from PIL.Image import Resampling, Transpose

    if box != (0, 0, picture.height, picture.width):
        picture = picture.crop((box.left, box.top, box.left + box.width, box.top + box.height))
    if box[2:] != size:
        kind = Resampling.NEAREST if picture.mode == "P" else Resampling.BILINEAR
        picture = picture.resize((size[1], size[0]), kind)
    return picture.transpose(Transpose.FLIP_LEFT_RIGHT) if is_flipped else picture


@lru_cache(maxsize=256)
def log_once(message: str) -> None:
    log.warning(message)


def _raw_mode(image: Image) -> str:
    """Return how the file holds pixels, such as "RGB;16B"; Pillow's own mode has 8 bits for these."""
    arguments = _tile_arguments(image)
    return str((arguments or (image.mode,))[0])


def _has_others(image: Any) -> bool:
    """Whether the file has several pages or frames; False if what follows the first one is damaged."""
    try:
        return bool(getattr(image, "is_animated", False)) and image.format != "MPO"  # a JPEG with a preview or a depth
    except Exception:
        return False


def _has_wide_channels(image: Image) -> bool:
    if image.format == "PPM":  # the second argument is the largest value
        return _tile_arguments(image)[1:] > (255,)
    return re.search(r";16[BLN]", _raw_mode(image)) is not None


def _tile_arguments(image: Any) -> tuple[Any, ...]:
    """Return the arguments of the decoder that Pillow has chosen; the first one is how the file holds pixels."""
    arguments = image.tile[0][3] if image.tile else ()
    return arguments if isinstance(arguments, tuple) else (arguments,)


# Faster ways to the same pixels: 0.6 of Pillow's time to decode a JPEG, 0.3 to resize an image.


_LEAST_SCALED = 8
"""The least longer side, in pixels, of a JPEG that is decoded at a smaller size: else several scales may give it."""


_SPACES = {"RGB": ("YCbCr", "RGB", "Gray"), "L": ("Gray",), "fast L": ("Gray", "YCbCr")}
"""The colour spaces of the JPEGs that simplejpeg decodes as Pillow does, by `mode`."""


def _jpeg_head(data: bytes, form: ImageForm) -> tuple[int, int] | None:
    """The height and width of a JPEG that simplejpeg can decode; None if Pillow must open it, or say what is wrong."""
    from PIL import Image

    if form.images == "pil" or not data.startswith(b"\xff\xd8\xff") or (turbo := _simplejpeg()) is None:
        return None
    try:
        height, width, space, _ = turbo.decode_jpeg_header(data)
    except ValueError:
        return None
    limit = Image.MAX_IMAGE_PIXELS
    spaces = _SPACES.get("fast L" if form.fast and form.mode == "L" else form.mode, ())
    return (height, width) if space in spaces and (limit is None or height * width <= limit) else None


def _jpeg_pixels(turbo: Any, data: bytes, mode: Mode, size: tuple[int, int] | None) -> Pixels | None:
    """The pixels of a JPEG, at the scale of the DCT that gives this height and width; None if it is damaged."""
    least = {} if size is None else {"min_height": size[0], "min_width": size[1]}
    try:
        return cast("Pixels", turbo.decode_jpeg(data, "GRAY" if mode == "L" else "RGB", **least))
    except ValueError:
        return None


@lru_cache(maxsize=1)
def _simplejpeg() -> Any:
    """The module, if it is installed and gives the pixels that Pillow gives; both have a libjpeg-turbo of their own."""
    try:
        simplejpeg = import_module("simplejpeg")
    except ImportError:
        return None
    from PIL import Image

    ramp = np.add.outer(np.arange(35) * 5, np.arange(51) * 3)[..., np.newaxis] * np.array([1, 2, 3])
    for subsampling in (0, 1, 2):
        Image.fromarray((ramp % 256).astype(np.uint8)).save(file := io.BytesIO(), "JPEG", subsampling=subsampling)
        for factor in (1, 2, 8):
            with Image.open(file) as image:
                image.draft("RGB", (image.width // factor, image.height // factor))
                size, expected = (image.height, image.width), np.asarray(image)
            found = _jpeg_pixels(simplejpeg, file.getvalue(), "RGB", None if factor == 1 else size)
            if found is None or not np.array_equal(found, expected):
                log.warning("Pillow decodes all JPEGs, because the installed simplejpeg gives other pixels")
                return None
    return simplejpeg


@lru_cache(maxsize=1)
def _has_torch() -> bool:
    return find_spec("torch") is not None
