// One element of a page that the board's program draws: waits for the program, then hands everything on to it.
//
// Streamlit sends a component's program with every change of its data. So the program and its style come in
// an element of their own, whose message never changes and is sent once (board.py puts it together); this
// loader is all that the elements themselves carry. KIND says what is to be drawn: board or place.

const waiting = (globalThis.attentionBoard ??= {});
waiting.promise ??= new Promise((resolve) => (waiting.resolve = resolve));

export default async function (component) {
  const loaded = waiting.loaded ?? (await waiting.promise);
  return loaded.KIND(component);
}
