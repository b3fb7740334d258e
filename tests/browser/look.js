// Runs axe. Of all elements whose text has the same dress (its colours, its size, and everything that is painted behind
// it), it measures the contrast of one, and of none whose dress is `known` to be readable: measuring takes longer than
// all other rules together. Returns the violations, and the dresses that were found readable.
async (known) => {
  const seen = new Set(known);
  const all = [...document.body.querySelectorAll("*")];
  const styles = new Map();
  const styleOf = (element) => styles.get(element) ?? styles.set(element, getComputedStyle(element)).get(element);
  const paint = (style) =>
    style.backgroundColor === "rgba(0, 0, 0, 0)" && style.backgroundImage === "none"
      ? "" : `${style.backgroundColor} ${style.backgroundImage} ${style.position}`;

  const grounds = new Map([[null, ""]]);
  const groundOf = (element) => {
    if (!grounds.has(element)) {
      const style = styleOf(element);
      const pseudo = ["::before", "::after"].map((name) => getComputedStyle(element, name));
      const own = [paint(style), ...pseudo.filter(({ content }) => content !== "none").map(paint)].filter(Boolean);
      const opacity = style.opacity === "1" ? [] : [`opacity ${style.opacity}`];
      grounds.set(element, [groundOf(element.parentElement), ...own, ...opacity].join("|"));
    }
    return grounds.get(element);
  };

  // What lies over or under text without being around it.
  const floating = all.filter((element) => styleOf(element).position !== "static" && paint(styleOf(element)));
  const meets = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
  const dressOf = (element, place) => {
    const { color, fontSize, fontWeight, textShadow, webkitTextFillColor, textDecorationLine } = styleOf(element);
    const control = element.closest("button, input, select, textarea, [aria-disabled]") ?? element.closest("label")?.control;
    const isDisabled = control?.matches(":disabled, [aria-disabled=true]");
    const beside = floating.filter((other) => !other.contains(element) && meets(place, other.getBoundingClientRect()));
    return [color, webkitTextFillColor, fontSize, fontWeight, textShadow, textDecorationLine, isDisabled, element.tagName,
      groundOf(element), ...beside.map((other) => `beside ${groundOf(other)}`)].join("; ");
  };
  const hasText = (element) => element.matches("input, select, textarea")
    || [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.nodeValue.trim());

  const measured = [];
  for (const element of all.filter(hasText)) {
    const place = element.getBoundingClientRect();
    // axe passes over what is hidden, or clipped for screen readers alone: that would say nothing of its twins.
    if (place.width <= 1 || place.height <= 1 || !element.checkVisibility({ checkVisibilityCSS: true })) continue;
    const dress = dressOf(element, place);
    if (seen.has(dress)) continue;
    seen.add(dress);
    element.dataset.dress = measured.push(dress) - 1;
  }

  axe.configure({ rules: [{ id: "color-contrast", selector: "[data-dress]" }] });
  // Tell of violations, and of what could not be measured; and do not fetch the style sheets once more, of which one
  // would come from a wrong address.
  const found = await axe.run({ resultTypes: ["violations", "incomplete"], preload: false });
  const unclear = found.incomplete.filter(({ id }) => id === "color-contrast").flatMap(({ nodes }) => nodes)
    .map(({ target }) => document.querySelector(target[0]).dataset.dress);
  for (const element of document.querySelectorAll("[data-dress]")) delete element.dataset.dress;
  const violations = found.violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => [id, html.slice(0, 200)]));
  return { violations, readable: measured.filter((_, number) => !unclear.includes(String(number))) };
}
