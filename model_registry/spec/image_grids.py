"""How an image is divided: the views that an encoder processes, their patches, and their tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class ImageCut:
    """An image as an encoder processes it: views with a number of patches each, and tokens of the
    prompt.

    beside: tokens outside the prompt, for cross-attention.
    """

    views: int
    patches: int
    tokens: int
    beside: int = 0


@dataclass(frozen=True, slots=True)
class ImageGrid:
    """Rules of an image processor.

    kind: "native": the image keeps its aspect ratio, with sides rounded to `factor` pixels and an
    area between `least` and `most` tokens.  "longest": likewise, the longer side at most `side`
    pixels. "fixed": one view of `side` x `side`.  "tiles": the number of `side` x `side` views that
    fits its aspect ratio best, up to `most`, plus with `thumbnail` one of the whole image if there
    are several.
    factor: pixels of a token's side.  merge: patches a token.
    class_patches: additional patches of each view.  row_tokens, image_tokens: additional tokens of
    the prompt per row of tokens and per image.  tile_tokens: additional tokens of each tile, if
    there are several.
    scaled: choose the tiles that enlarge the image least, or shrink it least if all of them shrink
    it.
    across: views are padded to `most` and used by cross-attention; in the prompt they take only
    `image_tokens`.  padding: patches that pad a view.
    """

    kind: Literal["native", "longest", "fixed", "tiles"]
    factor: int
    merge: int
    side: int = 0
    least: int = 1
    most: int = 1
    thumbnail: bool = False
    class_patches: int = 0
    row_tokens: int = 0
    image_tokens: int = 0
    across: bool = False
    padding: int = 0
    tile_tokens: int = 0
    scaled: bool = False

    def cut(self, width: int, height: int) -> ImageCut:
        """The division of an image of that size in pixels."""
        if self.kind in ("fixed", "tiles"):
            return self._tiled(width, height)
        rows, columns = self._sides(width, height)
        tokens = rows * columns
        more = rows * self.row_tokens + self.image_tokens
        return ImageCut(1, tokens * self.merge + self.class_patches, tokens + more)

    def _sides(self, width: int, height: int) -> tuple[int, int]:
        """(rows, columns) of tokens of an image that keeps its aspect ratio."""
        f = self.factor
        if self.kind == "longest":
            scale = min(1.0, self.side / max(width, height))
            sides = (math.ceil(height * scale / f), math.ceil(width * scale / f))
            return max(sides[0], 1), max(sides[1], 1)
        rows, columns = max(round(height / f), 1), max(round(width / f), 1)
        area = width * height / f**2
        if rows * columns > self.most:
            shrink = math.sqrt(area / self.most)
            rows = max(math.floor(height / shrink / f + 1e-9), 1)
            columns = max(math.floor(width / shrink / f + 1e-9), 1)
        elif rows * columns < self.least:
            grow = math.sqrt(self.least / area)
            rows, columns = math.ceil(height * grow / f), math.ceil(width * grow / f)
        return rows, columns

    def _tiled(self, width: int, height: int) -> ImageCut:
        each = (self.side // self.factor) ** 2
        if self.across:
            whole = each * self.merge + self.class_patches
            return ImageCut(
                1, self.most * (whole + self.padding), self.image_tokens, self.most * whole
            )
        across, down = self._tiles(width, height) if self.kind == "tiles" else (1, 1)
        views = across * down
        more = self.image_tokens + (views * self.tile_tokens if views > 1 else 0)
        views += int(self.thumbnail and views > 1)
        patches = each * self.merge + self.class_patches
        rows = views * self.row_tokens * (self.side // self.factor)
        return ImageCut(views, patches, views * each + rows + more)

    def _tiles(self, width: int, height: int) -> tuple[int, int]:
        """(across, down): of the tilings nearest to the image's aspect ratio, the largest that it
        fills by half.
        """
        shapes = [(a, d) for a in range(1, self.most + 1) for d in range(1, self.most // a + 1)]
        if self.scaled:
            return self._least_scaled(shapes, width, height)
        ratio = width / height
        gaps = {shape: abs(ratio - shape[0] / shape[1]) for shape in shapes}
        nearest = min(gaps.values())
        best = sorted((s for s in shapes if gaps[s] == nearest), key=lambda s: s[0] * s[1])
        filled = [s for s in best if width * height > 0.5 * self.side**2 * s[0] * s[1]]
        return (filled or best[:1])[-1]

    def _least_scaled(
        self, shapes: list[tuple[int, int]], width: int, height: int
    ) -> tuple[int, int]:
        """(across, down): the smallest tiling among those that enlarge the image least, or else
        shrink it least.
        """
        scales = {(a, d): min(a * self.side / width, d * self.side / height) for a, d in shapes}
        enlarge = [scale for scale in scales.values() if scale >= 1.0]
        chosen = min(enlarge) if enlarge else max(scales.values())
        return min((s for s in shapes if scales[s] == chosen), key=lambda s: (s[0] * s[1], s[1]))
