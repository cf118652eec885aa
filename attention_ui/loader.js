// The board on the page: waits for the board's program, then hands everything on to it.
//
// Streamlit sends a component's program with every change of its data. So the program and its style come in
// an element of their own, whose message never changes and is sent once (board.py puts it together); this
// loader is all that the board itself carries.

const waiting = (globalThis.attentionBoard ??= {});
waiting.promise ??= new Promise((resolve) => (waiting.resolve = resolve));

export default async function (component) {
  const { draw, style } = waiting.loaded ?? (await waiting.promise);
  const root = component.parentElement;
  if (root.adoptedStyleSheets && !root.adoptedStyleSheets.includes(style)) {
    root.adoptedStyleSheets = [...root.adoptedStyleSheets, style];
  }
  return draw(component);
}
