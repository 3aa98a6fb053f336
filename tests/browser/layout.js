// Returns what is wrong with the graph of a page: boxes that overlap, texts that leave their box, texts that overlap.
() => {
  const place = element => element.getBoundingClientRect();
  const overlapping = (selector, slack) => {
    const places = [...document.querySelectorAll(selector)].map(place);
    const apart = (a, b) =>
      a.right <= b.left || b.right <= a.left || a.bottom - slack <= b.top || b.bottom - slack <= a.top;
    return places.flatMap((a, at) => places.slice(at + 1).filter(b => !apart(a, b)).map(b =>
      `${selector} at ${[a.x, a.y]} overlaps that at ${[b.x, b.y]}`));
  };
  const leaving = [...document.querySelectorAll('.graph .node')].flatMap(node => {
    const box = place(node.querySelector('.box'));
    return [...node.querySelectorAll('text')].filter(text => {
      const {right, bottom, left, top} = place(text);
      return right > box.right || bottom > box.bottom || left < box.left || top < box.top;
    }).map(text => `${text.textContent} leaves its box`);
  });
  return [
    ...overlapping('.graph .box, .graph line + .plate', 0), ...overlapping('.graph text', 3), ...leaving,
  ];
}
