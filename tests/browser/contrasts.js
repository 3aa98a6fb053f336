// The contrast of each text with what is behind it, by WCAG 2, for the elements of a selector that have text of their own:
// [ratio, text, class]. A text of an SVG picture stands on the rectangle before it.
(selector) => {
  const numbers = (colour) => colour.match(/[\d.]+/g).map(Number);
  const linear = (part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  const luminance = ([red, green, blue]) =>
    0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
  const over = (above, below) => {
    const alpha = above[3] ?? 1;
    return above.slice(0, 3).map((part, i) => part * alpha + below[i] * (1 - alpha));
  };
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const box = at.matches("text") && at.previousElementSibling;
      const colour = box && box.matches("rect") ? getComputedStyle(box).fill : getComputedStyle(at).backgroundColor;
      layers.unshift(numbers(colour));
    }
    return layers.reduce((below, above) => over(above, below), [255, 255, 255]);
  };
  const found = [];
  for (const element of document.querySelectorAll(selector)) {
    const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
    const text = own.map((node) => node.textContent.trim()).join("");
    if (!text) continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const ink = over(numbers(element.matches("text") ? style.fill : style.color), below);
    const [low, high] = [luminance(ink), luminance(below)].sort((a, b) => a - b);
    found.push([(high + 0.05) / (low + 0.05), text, element.className.baseVal ?? element.className]);
  }
  return found;
};
