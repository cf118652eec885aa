/* Passages: the sentences and tables of a page that speak of the numbers on its board.

   Each has its place on the page, which Streamlit makes and fills in a run of the whole page. An edit brings
   all of them in the message of its board (passages.py). Whichever came with the later run is shown, and only
   what differs is touched: a box keeps where it was scrolled to, a list that was opened stays open, and a
   selected text stays selected. The text is HTML, made and escaped in Python; it is read without being run,
   and nothing but the elements and attributes named here is taken from it. */

const ELEMENTS = new Set([
  "a", "caption", "dd", "details", "div", "dl", "dt", "em", "h2", "i", "li", "line", "p", "path", "span", "strong", "sub",
  "summary", "sup", "svg", "table", "tbody", "td", "th", "thead", "title", "tr", "ul",
]);
const ATTRIBUTES = /^(aria-[a-z]+|class|href|rel|role|scope|style|tabindex|target)$/;
const DRAWING = /^(d|preserveAspectRatio|stroke-dasharray|viewBox|[xy][12])$/; // of an element of SVG

const passages = new Map(); // name → { session, turn, html, place, shown }

/** Where a passage stands, and how it reads in this run of the whole page. */
export function placePassage({ data, parentElement }) {
  const { name, ...told } = parsed(data);
  const known = passages.get(name);
  const newest = isLater(known, told) ? known : told;
  const place = placeIn(parentElement);
  passages.set(name, { ...newest, place, shown: known?.place === place ? known.shown : null });
  show(passages.get(name));
}

function placeIn(parent) {
  const found = [...parent.children].find((child) => child.className === "passage");
  if (found) return found;
  const place = document.createElement("div");
  place.className = "passage";
  parent.append(place);
  return place;
}

/** How all passages read after an edit. */
export function tellPassages({ session, turn, passages: texts }) {
  for (const [name, html] of Object.entries(texts ?? {})) {
    const known = passages.get(name);
    if (isLater(known, { session, turn })) continue;
    passages.set(name, { ...known, session, turn, html });
    show(passages.get(name));
  }
}

function isLater(known, told) {
  return known?.session === told.session && known.turn > told.turn;
}

/** Python sends JSON as bytes. */
export function parsed(data) {
  return ArrayBuffer.isView(data) ? JSON.parse(new TextDecoder().decode(data)) : data;
}

function show(passage) {
  const { place, html } = passage;
  if (!place || passage.shown === html) return;
  passage.shown = html;
  become(place, new DOMParser().parseFromString(html, "text/html").body);
}

/** Make the children of an element the same as those of another, touching only what differs. */
function become(element, wanted) {
  const children = [...wanted.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE || ELEMENTS.has(node.localName));
  const old = [...element.childNodes];
  children.forEach((child, at) => {
    const now = old[at];
    if (now?.nodeName !== child.nodeName || now.namespaceURI !== child.namespaceURI) {
      if (now) now.replaceWith(made(child));
      else element.append(made(child));
    } else if (child.nodeType === Node.TEXT_NODE) {
      if (now.data !== child.data) now.data = child.data;
    } else {
      dress(now, child);
      become(now, child);
    }
  });
  for (const left of old.slice(children.length)) left.remove();
}

function made(node) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  const element = document.createElementNS(node.namespaceURI, node.localName);
  dress(element, node);
  become(element, node);
  return element;
}

function dress(element, wanted) {
  for (const { name } of [...element.attributes]) {
    if (mayHave(element, name) && !wanted.hasAttribute(name)) element.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (!mayHave(element, name) || (name === "href" && !leadsToAPage(value))) continue;
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

function leadsToAPage(address) {
  return URL.canParse(address, location.href) && new URL(address, location.href).protocol.startsWith("http");
}

function mayHave(element, name) {
  return ATTRIBUTES.test(name) || (element.namespaceURI !== document.documentElement.namespaceURI && DRAWING.test(name));
}
