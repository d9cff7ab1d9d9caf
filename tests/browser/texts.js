// What is wrong with the texts of the chart #chart: too small, beyond its edges, over one another.
([width, height, least]) => {
  const chart = document.getElementById("chart");
  const origin = chart.getBoundingClientRect();
  const wrong = [], seen = [];
  for (const text of chart.querySelectorAll("svg text")) {
    const words = text.textContent.replace(/\u200b/g, "").trim();
    const place = text.getBoundingClientRect();
    if (!words || !place.width || !place.height || hidden(text)) continue;
    const matrix = text.getScreenCTM();
    const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(matrix.a, matrix.b);
    const box = {
      words, left: place.left - origin.left, right: place.right - origin.left,
      top: place.top - origin.top, bottom: place.bottom - origin.top,
      slack: Math.min(size * 0.22, place.height / 4),  // the room above small letters
    };
    if (size < least - 0.05) wrong.push(`${size.toFixed(1)} px: ${words}`);
    if (box.left < -1 || box.right > width + 1 || box.top < -1 || box.bottom > height + 1)
      wrong.push(`beyond the edge: ${words}`);
    for (const other of seen) {
      const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
      const upwards = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
      if (across > 1 && upwards > Math.max(box.slack, other.slack))
        wrong.push(`over one another: ${words} | ${other.words}`);
    }
    seen.push(box);
  }
  if (!seen.length) wrong.push("no text at all");
  return wrong;

  function hidden(text) {
    let opacity = 1;
    for (let at = text; at && at !== chart; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.visibility === "hidden" || style.display === "none") return true;
      opacity *= +style.opacity;
    }
    return opacity === 0 || text.closest(".hoverlayer, .modebar") !== null;
  }
}
