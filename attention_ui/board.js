/* The board: every matrix of a sheet as a table that is a heat map, edited in place.

   Python sends everything that is shown as ready text; numbers are never parsed here. What the reader does
   becomes an operation [number, kind, …] in a queue, sent until Python acknowledges its number. New data
   touches only the cells that changed, so focus, caret and an open editor stay where they are.
   Text from data only ever becomes textContent. */

const queues = new Map(); // board key → operations not yet acknowledged; outlives a remount in the same page
const views = new WeakMap(); // parent element → what is drawn in it
const places = new WeakMap(); // cell element → { figure, i, j }

const NARROW = 640; // px: below this, corners fold into a column
const PAUSE = 120; // ms: arrows that follow one another select once
const FLASH = 400; // ms
const SOON = 60; // ms that the server may take before a cell shows what was typed as not yet taken
const AGAIN = 2500; // ms without an answer after which operations are told again; then twice as long
const MORE = 150; // ms within which most words that follow a board have come
const LEAVING = 1500; // ms that a change of page may take to begin
const MANY = 300; // more changed cells than this do not flash

let wholePage = null; // asks for a run of the whole page
let unwritten = null; // what the address bar has yet to say
let leaving = 0; // until when a link may be taking the reader to another page

export default function board({ data, parentElement, setStateValue, setTriggerValue }) {
  if (!data) { // the element that carries this program stands outside every fragment
    wholePage = () => setTriggerValue("again", true);
    watchReader();
    keepAddress();
    return;
  }
  const state = tidy(data);
  const old = views.get(parentElement);
  const view = old?.root.isConnected ? old : makeView(parentElement);
  views.set(parentElement, view);
  view.tell = (ops) => setStateValue("ops", ops);
  view.queue = queueOf(state.key);
  if (acknowledge(view.queue, state) || view !== old) send(view);
  draw(view, state);
  finish(view);
  view.root.toggleAttribute("data-waiting", view.queue.ops.length > 0);
  if (typeof state.query === "string") unwritten = state.query;
  afterPaint(() => {
    if (state.then) whenStaying(view, () => setTriggerValue("drawn", state.ack));
    if (unwritten !== null) setTimeout(() => view.root.isConnected && writeAddress(), state.then ? MORE : 0);
  });
}

/** Whatever the reader does next finds the address written.

    And what is aimed at a part of this page must not meet a change of page: it would stop the new page's first run.
    Of the keys on a link only Enter opens it: Tab goes past. */
function watchReader() {
  if (document.documentElement.hasAttribute("data-reader-watched")) return;
  document.documentElement.setAttribute("data-reader-watched", "");
  const note = (event) => {
    const back = event.type === "popstate";
    if (back) unwritten = null; // the address is another page's by now
    else writeAddress();
    const opens = event.type !== "keydown" || event.key === "Enter";
    if (back || (opens && event.target.closest?.("a[href]"))) leaving = performance.now() + LEAVING;
  };
  for (const name of ["pointerdown", "click", "keydown", "popstate"]) window.addEventListener(name, note, true);
}

function isLeaving() {
  return performance.now() < leaving;
}

function whenStaying(view, go) {
  if (!isLeaving()) go();
  else setTimeout(() => view.root.isConnected && whenStaying(view, go), LEAVING);
}

/** Once the browser has painted: messages come after a frame, timers may come before it.

    The timer then lets everything else go first that waits for this frame. */
function afterPaint(tell) {
  requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => setTimeout(tell);
    port2.postMessage(null);
  });
}

/** What an operation changes on the screen before it is answered: with the answer, or after `wait` without one.

    Streamlit tells the server from a timer, which a frame that is asked for before it would hold up; and one
    frame with the answer comes sooner than two. Whatever the reader does next finds the work done. */
function later(view, work, wait = SOON) {
  view.rest.push(work);
  setTimeout(() => finish(view), wait);
}

function finish(view) {
  const rest = view.rest.splice(0); // focus that moves on the way gets here, too
  for (const work of rest) work();
}

const KEPT_IN_ADDRESS = ["embed", "embed_options"]; // Streamlit's own

/** The address bar holds what is shown. Replacing makes no history entry, so Back leaves the page. */
function follow(query) {
  const now = new URLSearchParams(location.search);
  const wanted = new URLSearchParams(query);
  for (const name of KEPT_IN_ADDRESS) for (const value of now.getAll(name)) wanted.append(name, value);
  const search = wanted.toString();
  if (search === now.toString()) return;
  history.replaceState(history.state, "", location.pathname + (search && `?${search}`) + location.hash);
}

/** Writing it takes the browser up to 25 ms: where more follows the board, that is let go first.

    Whatever the reader does meanwhile finds it written (watchReader). */
function writeAddress() {
  if (unwritten !== null) follow(unwritten);
  unwritten = null;
}

/** Whether the address holds everything that was entered; for the button that copies it. */
(globalThis.attentionBoard ??= {}).isInAddress = () => {
  if ([...queues.values()].some((queue) => queue.ops.length > 0)) return false;
  writeAddress();
  return true;
};

/** Streamlit writes no query into the address; only a change of page makes a history entry.

    It sends a server that has just started the query that it knows, or the one in the address when it knows
    none. So it is told to know none (address.py), which must not empty the address. */
function keepAddress() {
  if (history.pushState.keepsAddress) return;
  const original = history.pushState;
  history.pushState = function (state, title, url) {
    if (new URL(url ?? "", location.href).pathname !== location.pathname) original.call(this, state, title, url);
  };
  history.pushState.keepsAddress = true;
}

const BLANK = {
  label: [], size: "", dims: "", role: "plain", kind: "computed", scale: "signed", row_axis: "", col_axis: "",
  first_row: 1, first_col: 1,
  clipped: [], legend: "", width: 5, reads: [], sums_label: "row sum", notes: {}, meaning: "",
};

/** The data with a value in every place, whatever came. */
function tidy(data) {
  const list = (value) => (Array.isArray(value) ? value : []);
  const state = { key: "", session: "", ack: 0, toolbar: null, steps: null, selected: null, ...data };
  const grids = Object.entries(state.grids ?? {}).filter(([, grid]) => Array.isArray(grid?.cells));
  state.grids = Object.fromEntries(grids.map(([id, grid]) => [id, { name: id, ...BLANK, ...grid }]));
  state.layout = list(state.layout).map((line) => list(line).filter((unit) => state.grids[unit?.result]));
  state.steps = Array.isArray(state.steps?.titles) ? state.steps : null;
  state.messages = list(state.messages).filter((message) => message && message.text);
  return state;
}

/* ---- operations: a queue until acknowledged ------------------------------------------------------------ */

function queueOf(key) {
  if (!queues.has(key)) queues.set(key, { session: null, ack: 0, ops: [], again: AGAIN, timer: 0 });
  return queues.get(key);
}

/** Drop what Python has applied. True where a new session has to be told what the old one never took. */
function acknowledge(queue, { session, ack }) {
  if (queue.session !== session || ack > queue.ack) queue.again = AGAIN;
  if (queue.session === session) {
    queue.ack = Math.max(queue.ack, ack);
    queue.ops = queue.ops.filter(([number]) => number > queue.ack);
    if (!queue.ops.length) clearTimeout(queue.timer);
    return false;
  }
  queue.ops = queue.ops.map(([, ...op], at) => [ack + 1 + at, ...op]);
  queue.session = session;
  queue.ack = ack;
  return queue.ops.length > 0;
}

function push(view, ...ops) {
  enqueue(view, [...selectToTell(view), ...ops]);
}

function enqueue(view, ops) {
  const { queue } = view;
  for (const op of ops) {
    const last = queue.ops.length ? queue.ops.at(-1)[0] : queue.ack;
    queue.ops.push([last + 1, ...op]);
    dismiss(view, op);
  }
  queue.again = AGAIN;
  send(view);
  later(view, () => {
    view.root.toggleAttribute("data-waiting", queue.ops.length > 0);
    for (const figure of ops.flatMap(([, id]) => shown(view, id))) drawFigure(view, figure, []);
    drawMessages(view);
  });
}

/** Tell what is not acknowledged, and again after a while: what is told while the server is away is lost.

    A server that was started anew does not know the board's fragment, so from the second time on the whole
    page is asked for. */
function send(view, again = false) {
  const { queue, root } = view;
  if (!queue.ops.length || !root.isConnected) return;
  clearTimeout(queue.timer);
  if (isLeaving()) { // the board of the next page tells it, or this one when there was no change of page
    queue.timer = setTimeout(() => send(view), LEAVING);
    return;
  }
  if (again && wholePage) wholePage();
  else view.tell({ session: queue.session, ops: queue.ops.map((op) => [...op]) });
  queue.timer = setTimeout(() => send(view, true), queue.again);
  queue.again = Math.min(2 * queue.again, 24 * AGAIN);
}

/** The typed text of a cell whose edit Python has not taken yet. */
function pendingText(view, id, i, j) {
  const last = view.queue.ops.findLast((op) => op[1] === "edit" && op[2] === id && op[3] === i && op[4] === j);
  return last ? last[5] : null;
}

/** What a cell holds for the reader: what was typed and is still on its way, else the exact number. */
function held(view, id, i, j) {
  const grid = view.data.grids[id];
  return pendingText(view, id, i, j) ?? String(grid.exact?.[i]?.[j] ?? grid.cells[i][j]);
}

/* ---- making elements ----------------------------------------------------------------------------------- */

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) set(element, name, value);
  element.append(...children);
  return element;
}

/** Set an attribute, or take it away with null; nothing is touched where it is right already. */
function set(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, String(value));
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function makeView(parent) {
  for (const old of [...parent.children]) if (old.className === "board") old.remove();
  const root = make("div", { class: "board" });
  const view = {
    root, figures: new Map(), parts: {}, at: new Map(), lit: new Map(), bands: [], dismissed: new Set(),
    said: new Map(), selected: null, hover: null, editor: null, whole: null, timer: 0, rest: [], layout: "", queue: queueOf(""),
  };
  view.parts.bar = make("div", { class: "bar" });
  view.parts.lines = make("div", { class: "lines" });
  root.append(view.parts.bar, view.parts.lines, makeHelp());
  parent.append(root);
  listen(view);
  return view;
}

const KEYS = [
  ["arrows, Home, End", "move from cell to cell"],
  ["a digit", "replaces the number; Enter or an arrow takes it, Escape keeps the old one"],
  ["Enter or F2", "edits the number in place"],
  ["Tab", "goes on to the next matrix"],
  ["Ctrl + C, Ctrl + V", "copy a number, paste a block; Ctrl + A first: copy the whole matrix"],
  ["Ctrl + Z, Ctrl + Y", "undo, redo"],
  ["Page Down, Page Up", "next step, step before"],
];

function makeHelp() {
  const list = make("dl", {}, ...KEYS.flatMap(([keys, what]) => [make("dt", {}, keys), make("dd", {}, what)]));
  return make("details", { class: "keys" }, make("summary", {}, "Keys"), list);
}

function makeFigure(id, echo) {
  const figure = { id, echo, cells: [], rowHeads: [], colHeads: [], rows: [], sums: [], drawn: false };
  figure.title = make("span", { class: "title" });
  figure.size = make("span", { class: "size" });
  figure.corner = make("td", { role: "none", class: "axes" });
  figure.header = make("tr", echo ? {} : { role: "row" }, figure.corner);
  figure.body = make("tbody", echo ? {} : { role: "rowgroup" });
  figure.table = make("table", {}, make("thead", echo ? {} : { role: "rowgroup" }, figure.header), figure.body);
  figure.sumHead = make("span", { class: "sum-head" });
  figure.sumList = make("ul", {});
  figure.side = make("div", { class: "side", hidden: "" }, figure.sumHead, figure.sumList);
  figure.plate = make("div", { class: "plate" }, figure.table);
  figure.box = make("div", { class: "box" }, figure.plate, figure.side);
  figure.legend = make("span", { class: "legend" });
  figure.meaning = make("span", { class: "unseen", id: `meaning-${id}` });
  figure.said = make("p", { class: "said", id: `said-${id}`, "aria-live": "polite" });
  figure.foot = make("div", { class: "foot" }, figure.legend, ...(echo ? [] : [figure.meaning, figure.said]));
  const head = make("div", { class: "head" }, figure.title, figure.size);
  figure.element = make("div", { class: "matrix" }, head, figure.box, figure.foot);
  if (echo) set(figure.element, "aria-hidden", "true");
  else set(figure.table, "role", "grid");
  return figure;
}

/* ---- drawing: only what changed ------------------------------------------------------------------------ */

function draw(view, state) {
  view.data = state;
  if (view.timer === 0 && !view.queue.ops.some((op) => op[1] === "select")) view.selected = state.selected;
  if (!view.root.dataset.theme) chooseTheme(view);
  drawBar(view);
  const moved = arrange(view);
  const changed = [];
  let resized = moved;
  for (const figure of view.figures.values()) {
    if (!figure.element.isConnected || !state.grids[figure.id]) continue;
    resized = drawFigure(view, figure, changed) || resized;
  }
  if (resized) fold(view);
  drawMessages(view);
  light(view);
  if (changed.length) afterPaint(() => flash(changed));
}

function drawFigure(view, figure, changed) {
  const grid = view.data.grids[figure.id];
  const resized = fit(figure, grid.cells.length, grid.cells[0]?.length ?? 0);
  drawFrame(figure, grid);
  drawHeads(figure, grid);
  keepInRange(view, figure);
  const marks = marksOf(view, figure, grid);
  for (let i = 0; i < figure.cells.length; i++) {
    for (let j = 0; j < figure.cells[i].length; j++) {
      if (drawCell(figure, grid, i, j, marks) && figure.drawn) changed.push(figure.cells[i][j]);
    }
  }
  drawSums(figure, grid);
  figure.drawn = true;
  return resized;
}

/** Grow or shrink the table to n rows and m columns. True where it changed. */
function fit(figure, n, m) {
  const before = `${figure.cells.length} ${figure.colHeads.length}`;
  while (figure.colHeads.length > m) figure.colHeads.pop().remove();
  while (figure.cells.length > n) {
    figure.rows.pop().remove();
    figure.rowHeads.pop();
    figure.cells.pop();
  }
  for (const row of figure.cells) while (row.length > m) row.pop().remove();
  while (figure.colHeads.length < m) figure.header.append(makeHead(figure, "col", figure.colHeads));
  for (let i = 0; i < n; i++) {
    if (i === figure.cells.length) {
      figure.rows.push(make("tr", figure.echo ? {} : { role: "row", "aria-rowindex": i + 1 }));
      figure.rows[i].append(makeHead(figure, "row", figure.rowHeads));
      figure.cells.push([]);
      figure.body.append(figure.rows[i]);
    }
    while (figure.cells[i].length < m) figure.rows[i].append(makeCell(figure, i, figure.cells[i]));
  }
  return before !== `${n} ${m}`;
}

function makeHead(figure, side, heads) {
  const role = figure.echo ? {} : { role: `${side === "col" ? "column" : "row"}header`, scope: side };
  const head = make("th", role, make("bdi", { class: "token" }), make("span", { class: "nth", "aria-hidden": "true" }));
  if (side === "col" && !figure.echo) set(head, "aria-colindex", heads.length + 1);
  heads.push(head);
  return head;
}

function makeCell(figure, i, row) {
  const j = row.length;
  const cell = make("td", figure.echo ? {} : { role: "gridcell", "aria-colindex": j + 1, tabindex: "-1" });
  cell.append(make("span", { class: "number" }));
  places.set(cell, { figure, i, j });
  row.push(cell);
  return cell;
}

function drawFrame(figure, grid) {
  const { element, table } = figure;
  const columns = grid.cells[0]?.length ?? 0;
  for (const name of ["role", "kind", "scale"]) set(element, `data-${name}`, grid[name]);
  set(element, "data-grid", figure.id);
  writePieces(figure.title, grid.label.length ? grid.label : [[grid.name, ""]]);
  writePieces(figure.size, [[grid.dims ? `${grid.size} · ` : grid.size, ""], ...subscripts(grid.dims)]);
  set(figure.title, "title", grid.meaning || null);
  writePieces(figure.corner, subscripts(cornerLabel(grid)));
  write(figure.legend, grid.legend);
  if (figure.echo) return;
  write(figure.meaning, [grid.size, grid.meaning].filter(Boolean).join(". "));
  set(table, "aria-label", grid.name);
  set(table, "aria-describedby", figure.meaning.id);
  set(table, "aria-rowcount", grid.cells.length);
  set(table, "aria-colcount", columns);
}

/** What the rows are, where the columns are something else. */
function cornerLabel(grid) {
  return grid.col_axis && grid.row_axis !== grid.col_axis ? grid.row_axis : "";
}

/** Text in pieces [text, "" | "sub" | "sup"], written again only where it changed. */
function writePieces(element, pieces) {
  const signature = JSON.stringify(pieces);
  if (element.pieces === signature) return;
  element.pieces = signature;
  element.replaceChildren(
    ...pieces.map(([text, where]) => (where === "sub" || where === "sup" ? make(where, {}, text) : String(text))),
  );
}

/** "d_k × n_k" as pieces with k below the line. */
function subscripts(text) {
  return String(text).split(/_(\w+)/).map((piece, at) => [piece, at % 2 ? "sub" : ""]);
}

function drawHeads(figure, grid) {
  const sides = [[figure.rowHeads, grid.rows, "row", grid.first_row], [figure.colHeads, grid.cols, "column", grid.first_col]];
  for (const [heads, labels, side, first] of sides) {
    heads.forEach((head, at) => {
      const number = String(at + first);
      const label = String(labels?.[at] ?? number);
      write(head.firstChild, label);
      write(head.lastChild, label === number ? "" : number);
      set(head, "title", label === number ? null : `${label}, ${side} ${number}`);
    });
  }
}

/** What is special about some cells of a matrix, by their place "i,j". */
function marksOf(view, { id }, grid) {
  const { selected, queue, data } = view;
  const refused = data.messages.filter((m) => m.kind === "refused" && m.grid === id && !view.dismissed.has(m.id));
  const typed = queue.ops.filter((op) => op[1] === "edit" && op[2] === id);
  return {
    clipped: new Set(grid.clipped.map(String)),
    refused: new Set(refused.map(({ row, col }) => `${row},${col}`)),
    typed: new Map(typed.map(([, , , i, j, text]) => [`${i},${j}`, text])),
    selected: selected?.grid === id ? `${selected.row},${selected.col}` : "",
    stop: String(view.at.get(id) ?? [0, 0]),
  };
}

/** One cell from the data; nothing is touched where nothing changed. True where its text changed. */
function drawCell(figure, grid, i, j, marks) {
  const cell = figure.cells[i][j];
  const at = `${i},${j}`;
  const text = marks.typed.get(at) ?? String(grid.cells[i][j] ?? "");
  const level = grid.levels ? (grid.levels[i]?.[j] ?? null) : undefined;
  const is = Object.fromEntries(["clipped", "typed", "refused"].map((name) => [name, marks[name].has(at)]));
  is.selected = marks.selected === at;
  const state = JSON.stringify([text, String(level), is, marks.stop === at, grid.kind]);
  if (cell.state === state) return false;
  cell.state = state;
  const changed = cell.firstChild.textContent !== text;
  write(cell.firstChild, text);
  set(cell, "data-level", level);
  set(cell, "data-blank", level === null ? "" : null);
  set(cell, "data-clipped", is.clipped ? "" : null);
  set(cell, "data-pending", is.typed ? "" : null);
  const long = text.length > Number(grid.width) + 1;
  set(cell, "data-long", long ? "" : null);
  set(cell, "title", is.clipped ? `${text}: beyond the colour range` : long ? text : null);
  if (figure.echo) set(cell, "data-selected", is.selected ? "" : null);
  else drawAccess(figure, grid, cell, text, { ...is, blank: level === null, stop: marks.stop === at });
  return changed;
}

function drawAccess(figure, grid, cell, text, is) {
  set(cell, "aria-selected", is.selected ? "true" : "false");
  set(cell, "aria-readonly", grid.kind === "computed" ? "true" : null);
  set(cell, "aria-invalid", is.refused ? "true" : null);
  set(cell, "aria-describedby", is.refused ? figure.said.id : null);
  set(cell, "aria-label", spoken(grid, text, is.blank));
  set(cell, "tabindex", is.stop ? "0" : "-1");
}

/** What a cell says where its text alone would not. */
function spoken(grid, text, blank) {
  if (grid.kind === "switch") return blank || text === "−∞" ? `${text || "blank"}, may not look` : `${text}, may look`;
  if (text === "−∞") return "minus infinity, may not look";
  return text === "" ? "no number" : null;
}

function isAt(place, id, i, j) {
  return Boolean(place) && place.grid === id && place.row === i && place.col === j;
}

function drawSums(figure, grid) {
  const { notes } = grid;
  const has = !figure.echo && (Boolean(grid.sums?.length) || Object.keys(notes).length > 0);
  figure.side.hidden = !has;
  if (!has) return;
  write(figure.sumHead, grid.sums?.length ? grid.sums_label : "");
  set(figure.sumList, "aria-label", `${grid.name}: ${grid.sums?.length ? grid.sums_label : "notes"}`);
  while (figure.sums.length > grid.cells.length) figure.sums.pop().remove();
  while (figure.sums.length < grid.cells.length) {
    const item = make("li", {}, make("span", { class: "sum" }), make("span", { class: "note" }));
    figure.sums.push(item);
    figure.sumList.append(item);
  }
  figure.sums.forEach((item, i) => {
    write(item.firstChild, grid.sums?.[i] === undefined ? "" : `Σ = ${grid.sums[i]}`);
    write(item.lastChild, String(notes[i] ?? ""));
  });
}

/** Let the eye find what changed; an animation touches no attribute. */
function flash(cells) {
  if (cells.length > MANY || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const cell of cells) {
    cell.firstChild.animate?.([{ opacity: 1 }, { opacity: 0.3 }, { opacity: 1 }], FLASH); // needs no painting
  }
}

/** Dark or light, from the page's own background. */
function chooseTheme(view) {
  const channels = getComputedStyle(view.root).backgroundColor.match(/[\d.]+/g)?.map(Number) ?? [];
  if (channels.length < 3 || channels[3] === 0) return;
  const [r, g, b] = channels;
  set(view.root, "data-theme", 0.2126 * r + 0.7152 * g + 0.0722 * b < 128 ? "dark" : "light");
}

/* ---- arranging: lines of corners ----------------------------------------------------------------------- */

const CORNER = ["corner", "top", "left", "result"];

/** Build lines and units anew where the layout changed; matrices are moved, not made again. */
function arrange(view) {
  const signature = JSON.stringify([view.data.layout, Object.keys(view.data.grids)]);
  if (view.layout !== signature) {
    view.layout = signature;
    const kept = holdFocus(view);
    const seen = new Set();
    view.parts.lines.replaceChildren(
      ...view.data.layout.map((line) => make("div", { class: "line" }, ...line.map((unit) => makeUnit(view, unit, seen)))),
    );
    kept();
  } else if (view.parts.lines.isConnected) {
    view.parts.lines.querySelectorAll(".unit").forEach((unit) => measure(view, unit));
    return false;
  }
  view.parts.lines.querySelectorAll(".unit").forEach((unit) => measure(view, unit));
  return true;
}

function makeUnit(view, unit, seen) {
  const element = make("div", { class: "unit", "data-corner": unit.left || unit.corner ? "" : null });
  set(element, "data-via", unit.via ? "" : null);
  set(element, "data-top", unit.top ? "" : null);
  if (unit.via) element.append(makeVia(unit.via));
  element.figures = {};
  for (const where of CORNER.filter((name) => view.data.grids[unit[name]])) {
    const id = unit[where];
    const echo = (unit.echo ?? []).includes(id) || seen.has(id);
    if (!echo) seen.add(id);
    const figure = figureOf(view, id, echo, `${unit.result} ${where}`);
    set(figure.element, "data-place", where);
    set(figure.element, "data-echo", echo ? "" : null);
    element.figures[where] = figure;
    element.append(figure.element);
  }
  return element;
}

/** How a unit follows from the one before it: "÷ √d_k" over an arrow. */
function makeVia(text) {
  const word = make("span", {});
  writePieces(word, subscripts(text));
  return make("div", { class: "via", "aria-hidden": "true" }, word, make("span", { class: "arrow" }, "→"));
}

function figureOf(view, id, echo, where) {
  const name = echo ? `${id} in ${where}` : id;
  if (!view.figures.has(name)) view.figures.set(name, makeFigure(id, echo));
  const figure = view.figures.get(name);
  if (!figure.element.isConnected) figure.drawn = false;
  return figure;
}

/** Give the matrices that stand above one another the same column widths. */
function measure(view, unit) {
  const { corner, top, left, result } = unit.figures;
  for (const column of [[corner, left], [top, result]]) {
    const figures = column.filter(Boolean);
    const grids = figures.map((figure) => view.data.grids[figure.id]).filter(Boolean);
    const heads = grids.map((grid) => Math.max(cornerLabel(grid).length - 1, ...labelLengths(grid)));
    const width = Math.max(...grids.map((grid) => Number(grid.width) || 5), 3);
    const head = Math.min(Math.max(...heads, 1), 7) + (grids.some((grid) => grid.rows?.length) ? 1 : 0);
    for (const { element } of figures) {
      if (element.style.getPropertyValue("--chars") !== String(width)) element.style.setProperty("--chars", width);
      if (element.style.getPropertyValue("--head") !== String(head)) element.style.setProperty("--head", head);
    }
  }
}

function labelLengths(grid) {
  return (grid.rows ?? []).map((label) => [...String(label)].length);
}

/** Take the largest size at which all corners fit; corners that fit at none fold into a column. */
function fold(view) {
  const room = view.root.clientWidth;
  if (!room) return;
  const units = [...view.parts.lines.querySelectorAll(".unit[data-corner], .unit[data-top]")];
  const small = room < NARROW;
  const fits = (unit) => !small && widthOf(unit) <= room;
  for (const density of small ? [null] : [null, "dense", "tight", "dense"]) {
    set(view.root, "data-density", density);
    if (units.every(fits)) break;
  }
  for (const unit of units) set(unit, "data-folded", fits(unit) ? null : "");
}

/** What a unit needs as a corner, however it is drawn now. */
function widthOf(unit) {
  const width = (figure) => (figure ? figure.plate.offsetWidth + figure.side.offsetWidth : 0);
  const { corner, top, left, result } = unit.figures;
  return Math.max(width(corner), width(left)) + Math.max(width(top), width(result)) + 40;
}

/** Remember what has focus; the function returned gives it back after elements were moved. */
function holdFocus(view) {
  const active = view.root.getRootNode().activeElement;
  if (!active || !view.root.contains(active)) return () => {};
  const { editor } = view;
  const caret = editor?.input === active ? [active.selectionStart, active.selectionEnd] : null;
  view.moving = true;
  return () => {
    if (active.isConnected) active.focus({ preventScroll: true });
    if (caret && active.isConnected) active.setSelectionRange(...caret);
    view.moving = false;
    if (editor && !active.isConnected) closeEditor(view);
  };
}

/* ---- the bar: undo, redo, reset, new numbers; the steps ------------------------------------------------ */

const BUTTONS = [["undo", "Undo"], ["redo", "Redo"], ["reset", "Reset"], ["new", "New numbers"]];

function drawBar(view) {
  const { bar } = view.parts;
  const { toolbar, steps } = view.data;
  if (toolbar && !view.parts.tools) bar.append((view.parts.tools = makeTools(view)));
  if (!toolbar && view.parts.tools) view.parts.tools = void view.parts.tools.remove();
  if (toolbar) {
    for (const [kind] of BUTTONS) set(view.parts[kind], "aria-disabled", kind !== "new" && !toolbar[kind] ? "true" : null);
    write(view.parts.seed, toolbar.seed ? `seed ${toolbar.seed}` : "");
  }
  const titles = JSON.stringify(steps?.titles ?? []);
  if (view.parts.titles !== titles) {
    view.parts.titles = titles;
    view.parts.steps?.remove();
    if (steps) bar.prepend((view.parts.steps = makeSteps(view)));
  }
  if (steps) drawSteps(view);
}

function makeTools(view) {
  const tools = make("div", { class: "tools", role: "group", "aria-label": "Changes" });
  for (const [kind, name] of BUTTONS) {
    view.parts[kind] = make("button", { type: "button", "data-do": kind }, name);
    tools.append(view.parts[kind]);
  }
  tools.append((view.parts.seed = make("span", { class: "seed" })));
  return tools;
}

function makeSteps(view) {
  const items = view.data.steps.titles.map((title, at) => {
    const parts = [make("span", { class: "step-number" }, `${at + 1} `), make("span", { class: "step-title" }, title)];
    return make("li", {}, make("button", { type: "button", "data-step": at + 1, title }, ...parts));
  });
  const back = make("button", { type: "button", "data-go": "-1" }, "Back");
  const next = make("button", { type: "button", "data-go": "1", class: "next" }, "Next");
  view.parts.now = make("span", { class: "now", "aria-hidden": "true" });
  return make("nav", { class: "steps", "aria-label": "Steps" }, back, make("ol", {}, ...items), view.parts.now, next);
}

function drawSteps(view) {
  const { titles, now } = view.data.steps;
  const step = pendingStep(view) ?? now;
  write(view.parts.now, String(titles[step - 1] ?? ""));
  view.parts.steps.querySelectorAll("[data-step]").forEach((button) => {
    set(button, "aria-current", Number(button.dataset.step) === step ? "step" : null);
  });
  view.parts.steps.querySelectorAll("[data-go]").forEach((button) => {
    const to = step + Number(button.dataset.go);
    set(button, "aria-disabled", to < 1 || to > titles.length ? "true" : null);
    set(button, "title", titles[to - 1] ?? null);
  });
}

function pendingStep(view) {
  return view.queue.ops.findLast((op) => op[1] === "step")?.[2] ?? null;
}

function goTo(view, step) {
  const { steps } = view.data;
  if (!steps || step < 1 || step > steps.titles.length || step === (pendingStep(view) ?? steps.now)) return;
  push(view, ["step", step]);
  drawSteps(view);
}

function press(view, button) {
  if (button.getAttribute("aria-disabled") === "true") return;
  commit(view);
  if (button.dataset.do) push(view, [button.dataset.do]);
  if (button.dataset.step) goTo(view, Number(button.dataset.step));
  if (button.dataset.go) goTo(view, (pendingStep(view) ?? view.data.steps.now) + Number(button.dataset.go));
}

/* ---- what is said under a matrix ----------------------------------------------------------------------- */

function drawMessages(view) {
  for (const figure of view.figures.values()) {
    if (figure.echo) continue;
    const messages = view.data.messages.filter((m) => m.grid === figure.id && !view.dismissed.has(m.id));
    const note = view.said.get(figure.id);
    write(figure.said, messages.length ? messages.map((m) => m.text).join(" ") : (note ?? ""));
    set(figure.said, "data-kind", messages.some((m) => m.kind === "refused") ? "refused" : "note");
  }
}

/** The next operation on a matrix takes its messages away; drawing follows. */
function dismiss(view, [kind, id]) {
  if (!["edit", "paste", "toggle", "select"].includes(kind)) return;
  const old = view.data.messages.filter((m) => m.grid === id && !view.dismissed.has(m.id));
  view.said.delete(id);
  if (kind === "select" && old.some((m) => m.kind === "refused")) return;
  old.forEach((m) => view.dismissed.add(m.id));
}

function sayComputed(view, figure) {
  const grid = view.data.grids[figure.id];
  const made = grid.reads.map(([id]) => view.data.grids[id]?.name ?? id);
  const from = made.length ? ` from ${[...new Set(made)].join(" and ")}` : "";
  view.said.set(figure.id, `${grid.name} is computed${from}; change those instead.`);
  drawMessages(view);
}

/* ---- light: the cells a cell is made from -------------------------------------------------------------- */

/* Which cells of an input make cell (i, j): ranges [first row, last row, first column, last column]. */
const PATTERNS = {
  row: (i) => [[i, i, 0, Infinity]],
  column: (i, j) => [[0, Infinity, j, j]],
  cell: (i, j) => [[i, i, j, j]],
  swapped: (i, j) => [[j, j, i, i]],
  all: () => [[0, Infinity, 0, Infinity]],
  first: (i) => [[i, i, 0, 0]], // a number for each row
  top: (i, j) => [[0, 0, j, j]], // a number for each column
  shift: (i, j, by) => (j + by < 0 ? [] : [[i, i, j + by, j + by]]),
  at: (i, j, here, row) => (i === here ? [[row, row, j, j]] : []),
  turned: (i, j, row) => [[row, row, i, i]],
  side: (i, j, column) => [[i, i, column, column]],
  rows: (i, j, ...order) => [[order[i], order[i], j, j]],
  pair: (i, j, width = Infinity) => [j < width ? [i, i, j & ~1, j | 1] : [i, i, j, j]],
  half: (i, j, width) => [[i, i, j, j], ...(j < width ? [[i, i, other(j, width), other(j, width)]] : [])],
  angle: (i, j, width = Infinity) => (j < width ? [[i, i, j >> 1, j >> 1]] : []),
  "angle-half": (i, j, width) => (j < width ? [[i, i, j % (width / 2), j % (width / 2)]] : []),
  // head h (from 0) of heads d wide, when a matrix of n rows is cut up without the transpose
  head: (i, j, h, d, n, heads) => {
    const flat = (h * n + i) * d + j;
    const [row, column] = [Math.floor(flat / (heads * d)), flat % (heads * d)];
    return [[row, row, column, column]];
  },
};

function other(j, width) {
  return (j + width / 2) % width;
}

function sources(pattern, i, j) {
  const [name, ...numbers] = pattern.split(" ");
  return PATTERNS[name]?.(i, j, ...numbers.map(Number)) ?? [];
}

/** Outline what the hovered, focused or selected cell is made from. */
function light(view) {
  const active = view.hover ?? focused(view) ?? placeOfSelected(view);
  const lit = new Map();
  const bands = [];
  if (active) {
    for (const figure of shown(view, active.id)) mark(figure, [active.i, active.i, active.j, active.j], "self", lit);
    for (const [id, pattern] of view.data.grids[active.id]?.reads ?? []) {
      for (const range of sources(pattern, active.i, active.j)) {
        for (const figure of shown(view, id)) bands.push([figure, mark(figure, range, "source", lit)]);
      }
    }
  }
  for (const cell of view.lit.keys()) if (!lit.has(cell)) set(cell, "data-lit", null);
  for (const [cell, kind] of lit) set(cell, "data-lit", kind);
  view.lit = lit;
  drawBands(view, bands.filter(([, cells]) => cells.length));
}

function mark(figure, [i0, i1, j0, j1], kind, lit) {
  const cells = figure.cells.slice(i0, i1 + 1).flatMap((row) => row.slice(j0, j1 + 1));
  for (const cell of cells) lit.set(cell, kind);
  return cells;
}

/** One dashed outline around each row, column or block of source cells. */
function drawBands(view, bands) {
  while (view.bands.length > bands.length) view.bands.pop().remove();
  while (view.bands.length < bands.length) view.bands.push(make("div", { class: "band", "aria-hidden": "true" }));
  bands.forEach(([figure, cells], at) => {
    const [first, last] = [cells[0], cells.at(-1)];
    const box = [first.offsetTop, first.offsetLeft];
    box.push(last.offsetLeft + last.offsetWidth - box[1], last.offsetTop + last.offsetHeight - box[0]);
    const style = `top:${box[0]}px;left:${box[1]}px;width:${box[2]}px;height:${box[3]}px`;
    if (view.bands[at].parentNode !== figure.plate) figure.plate.append(view.bands[at]);
    set(view.bands[at], "style", style);
  });
}

function shown(view, id) {
  return [...view.figures.values()].filter((figure) => figure.id === id && figure.element.isConnected);
}

function focused(view) {
  const place = places.get(view.root.getRootNode().activeElement?.closest?.("td"));
  return place ? { id: place.figure.id, i: place.i, j: place.j } : null;
}

function placeOfSelected(view) {
  const { selected } = view;
  return selected && view.data.grids[selected.grid] ? { id: selected.grid, i: selected.row, j: selected.col } : null;
}

/* ---- moving and selecting ------------------------------------------------------------------------------ */

function keepInRange(view, figure) {
  if (figure.echo) return;
  const [n, m] = [figure.cells.length, figure.cells[0]?.length ?? 0];
  const { selected } = view;
  const [i, j] = view.at.get(figure.id) ?? (selected?.grid === figure.id ? [selected.row, selected.col] : [0, 0]);
  view.at.set(figure.id, [Math.max(0, Math.min(i, n - 1)), Math.max(0, Math.min(j, m - 1))]);
}

/** Make (i, j) the cell of its grid that Tab reaches. */
function rove(view, figure, i, j) {
  const [row, col] = view.at.get(figure.id) ?? [0, 0];
  view.at.set(figure.id, [i, j]);
  for (const [cell, stop] of [[figure.cells[row]?.[col], "-1"], [figure.cells[i][j], "0"]]) {
    if (cell) set(forget(cell), "tabindex", stop);
  }
}

/** A cell whose attributes are set outside drawCell, which must look at it anew. */
function forget(cell) {
  cell.state = "";
  return cell;
}

function moveTo(view, figure, i, j) {
  const row = Math.max(0, Math.min(i, figure.cells.length - 1));
  const col = Math.max(0, Math.min(j, figure.cells[row].length - 1));
  rove(view, figure, row, col);
  figure.cells[row][col].focus();
  select(view, figure, row, col, PAUSE);
}

/** Select at once on the screen, and tell Python after a pause. */
function select(view, figure, i, j, pause = 0) {
  if (isAt(view.selected, figure.id, i, j)) return;
  const old = view.selected;
  view.selected = { grid: figure.id, row: i, col: j };
  for (const place of [old, view.selected]) if (place) drawSelected(view, place);
  clearTimeout(view.timer);
  view.timer = setTimeout(() => flushSelect(view), pause);
  if (!pause) flushSelect(view);
  light(view);
}

function drawSelected(view, { grid, row, col }) {
  for (const figure of shown(view, grid)) {
    const cell = figure.cells[row]?.[col];
    const selected = isAt(view.selected, grid, row, col);
    if (cell && figure.echo) set(forget(cell), "data-selected", selected ? "" : null);
    else if (cell) set(forget(cell), "aria-selected", selected ? "true" : "false");
  }
}

function flushSelect(view) {
  const ops = selectToTell(view);
  if (ops.length) enqueue(view, ops);
}

/** The selection that Python does not know of yet, as an operation. */
function selectToTell(view) {
  if (view.timer === 0) return [];
  clearTimeout(view.timer);
  view.timer = 0;
  const { selected } = view;
  return selected ? [["select", selected.grid, selected.row, selected.col]] : [];
}

/* ---- editing in place ---------------------------------------------------------------------------------- */

/** Open the editor on a given cell: on its whole text (caret), or on a first character that replaces it. */
function edit(view, { figure, i, j }, first = null) {
  const grid = view.data.grids[figure.id];
  commit(view);
  finish(view);
  select(view, figure, i, j, PAUSE);
  const initial = held(view, figure.id, i, j);
  const input = make("input", {
    class: "editor", type: "text", inputmode: "text", enterkeyhint: "done", autocomplete: "off",
    autocapitalize: "off", autocorrect: "off", spellcheck: "false",
    "aria-label": `${grid.name}, row ${i + 1}, column ${j + 1}`,
  });
  input.value = first ?? initial;
  view.editor = { figure, i, j, input, initial, caret: first === null };
  set(figure.cells[i][j], "contenteditable", null);
  figure.cells[i][j].append(input);
  input.focus({ preventScroll: true });
  if (first === null) input.select();
}

function closeEditor(view) {
  const { editor } = view;
  view.editor = null;
  editor?.input.remove();
  return editor;
}

/** Take the typed text, if an editor is open and the text is another one. */
function commit(view, focus = false) {
  const { editor } = view;
  if (!editor) return;
  view.editor = null;
  const { figure, i, j, input, initial } = editor;
  const cell = figure.cells[i]?.[j];
  if (cell && input.value !== initial) push(view, ["edit", figure.id, i, j, input.value]);
  later(view, () => {
    if (focus) cell?.focus({ preventScroll: true }); // before anything changes, so that nothing is laid out for it
    input.remove();
  });
}

/** A key in the editor. True where it has been dealt with. */
function editorKey(view, event) {
  const { figure, i, j, caret } = view.editor;
  const step = caret ? null : ARROWS[event.key];
  if (event.key === "Enter") commit(view, true);
  else if (event.key === "Escape") {
    closeEditor(view);
    figure.cells[i][j].focus({ preventScroll: true });
  } else if (event.key === "F2") view.editor.caret = !caret;
  else if (step) {
    commit(view, true);
    later(view, () => moveTo(view, figure, i + step[0], j + step[1]), 0);
  } else if (event.key === "Tab") {
    commit(view, true);
    finish(view); // the cell has focus again, and the browser goes on from there
    return false;
  } else return false;
  return true;
}

/* ---- keys ---------------------------------------------------------------------------------------------- */

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

function onKey(view, event) {
  if (event.isComposing) return;
  const place = places.get(targetOf(view, event).closest("td"));
  let taken = false;
  if (view.editor?.input === event.target) taken = editorKey(view, event);
  else if (event.ctrlKey || event.metaKey) taken = chord(view, event, place);
  else taken = stepKey(view, event) || Boolean(place && cellKey(view, event, place));
  if (taken) event.preventDefault();
  event.stopPropagation(); // Streamlit has keys of its own: "r" runs the page again
}

/** What a key or a text is meant for: where the editor has just closed, the cell that has focus now. */
function targetOf(view, event) {
  return event.target.isConnected ? event.target : view.root.getRootNode().activeElement ?? view.root;
}

/** Keys with Ctrl or ⌘. */
function chord(view, event, place) {
  const key = event.key.toLowerCase();
  if (key === "z") return historyKey(view, event.shiftKey ? "redo" : "undo");
  if (key === "y") return historyKey(view, "redo");
  if (!place) return false;
  const { figure } = place;
  if (key === "a") {
    view.whole = figure;
    set(figure.element, "data-whole", "");
  } else if (key === "home") moveTo(view, figure, 0, 0);
  else if (key === "end") moveTo(view, figure, Infinity, Infinity);
  else return false;
  return true;
}

function historyKey(view, kind) {
  const allowed = view.data.toolbar === null || view.data.toolbar[kind] || view.queue.ops.length > 0;
  if (allowed) push(view, [kind]);
  return true;
}

function stepKey(view, event) {
  const way = { PageDown: 1, PageUp: -1 }[event.key];
  if (!way || !view.data.steps) return false;
  goTo(view, (pendingStep(view) ?? view.data.steps.now) + way);
  return true;
}

function cellKey(view, event, { figure, i, j }) {
  const { key } = event;
  const { kind } = view.data.grids[figure.id];
  forgetWhole(view);
  if (ARROWS[key]) moveTo(view, figure, i + ARROWS[key][0], j + ARROWS[key][1]);
  else if (key === "Home") moveTo(view, figure, i, 0);
  else if (key === "End") moveTo(view, figure, i, Infinity);
  else if (key === " " || key === "Enter" || key === "F2") act(view, { figure, i, j }, key);
  else if (key.length === 1 && !event.altKey) {
    if (kind === "given") edit(view, { figure, i, j }, key);
    else if (kind === "computed") sayComputed(view, figure);
  } else return false;
  return true;
}

/** Enter, F2 and Space: edit a given cell, switch a switch, select a computed one. */
function act(view, place, key) {
  const { kind } = view.data.grids[place.figure.id];
  if (kind === "given" && key !== " ") edit(view, place);
  else if (kind === "switch" && key !== "F2") toggle(view, place);
  else select(view, place.figure, place.i, place.j);
}

function toggle(view, { figure, i, j }) {
  select(view, figure, i, j, PAUSE);
  push(view, ["toggle", figure.id, i, j]);
}

function forgetWhole(view) {
  if (view.whole) set(view.whole.element, "data-whole", null);
  view.whole = null;
}

/* ---- pointer and clipboard ----------------------------------------------------------------------------- */

function onDown(view, event) {
  const place = realPlace(event.target);
  view.brush = event.pointerType === "mouse" && place && view.data.grids[place.figure.id].kind === "switch" ? place : null;
  view.tap = event.pointerType !== "mouse" && place && isAt(view.selected, place.figure.id, place.i, place.j);
}

function onClick(view, event) {
  const button = event.target.closest("button");
  if (button) press(view, button);
  const place = realPlace(event.target);
  if (!place || view.editor?.input === event.target) return;
  forgetWhole(view);
  const { kind } = view.data.grids[place.figure.id];
  if (kind === "switch") toggle(view, place);
  else if (view.tap && kind === "given") edit(view, place);
  else select(view, place.figure, place.i, place.j);
}

function realPlace(target) {
  const place = places.get(target.closest?.("td"));
  return place && !place.figure.echo ? place : null;
}

/** Drawing over switches with the mouse held down gives all of them what the first one gets. */
function paint(view, event) {
  const { brush } = view;
  const place = realPlace(event.target);
  if (!brush || !(event.buttons & 1) || place?.figure !== brush.figure) return;
  const cells = view.data.grids[brush.figure.id].cells;
  if (!brush.painted) {
    if (place.i === brush.i && place.j === brush.j) return;
    view.brush = { ...brush, from: cells[brush.i][brush.j], painted: new Set() };
    paintOne(view, brush);
  }
  if (cells[place.i][place.j] === view.brush.from) paintOne(view, place);
}

function paintOne(view, { figure, i, j }) {
  if (view.brush.painted.has(`${i} ${j}`)) return;
  view.brush.painted.add(`${i} ${j}`);
  push(view, ["toggle", figure.id, i, j]);
}

function onHover(view, event) {
  paint(view, event);
  const place = event.pointerType === "touch" ? null : places.get(event.target.closest?.("td"));
  const hover = place ? { id: place.figure.id, i: place.i, j: place.j } : null;
  if (JSON.stringify(hover) === JSON.stringify(view.hover)) return;
  view.hover = hover;
  light(view);
}

function onFocus(view, event) {
  const place = realPlace(event.target);
  if (place) rove(view, place.figure, place.i, place.j);
  if (place && event.target.matches("td")) acceptText(view, place);
  light(view);
}

/** Text that comes without a key (an input method, dictation, a typographic minus) starts the editor, too. */
function acceptText(view, { figure, i, j }) {
  const cell = figure.cells[i][j];
  if (view.data.grids[figure.id]?.kind !== "given") return;
  set(cell, "contenteditable", "true");
  set(cell, "inputmode", "none"); // no keyboard on the screen before there is something to type into
  getSelection().collapse(cell.firstChild, 0);
}

function onText(view, event) {
  if (view.editor?.input === event.target) return;
  event.preventDefault();
  const place = realPlace(targetOf(view, event));
  if (place && event.data && !view.editor) edit(view, place, event.data);
}

function onBlur(view, event) {
  if (event.target.matches("td")) set(event.target, "contenteditable", null);
  if (view.moving) return;
  if (view.editor?.input === event.target) commit(view);
  forgetWhole(view);
  queueMicrotask(() => light(view));
}

function onCopy(view, event) {
  const place = realPlace(view.root.getRootNode().activeElement ?? view.root);
  if (!place || view.editor || String(getSelection()) !== "") return;
  const { id } = place.figure;
  const line = (row, i) => row.map((_, j) => held(view, id, i, j)).join("\t");
  const whole = () => view.data.grids[id].cells.map(line).join("\n");
  event.clipboardData.setData("text/plain", view.whole ? whole() : held(view, id, place.i, place.j));
  event.preventDefault();
}

function onPaste(view, event) {
  const place = realPlace(view.root.getRootNode().activeElement ?? view.root);
  if (!place || view.editor) return;
  const { kind } = view.data.grids[place.figure.id];
  const text = event.clipboardData.getData("text/plain");
  event.preventDefault();
  if (kind === "computed") sayComputed(view, place.figure);
  else if (kind === "given" && text !== "") push(view, ["paste", place.figure.id, place.i, place.j, text]);
}

function listen(view) {
  const { root } = view;
  const on = (name, handler) =>
    root.addEventListener(name, (event) => {
      finish(view);
      handler(view, event);
    });
  on("keydown", onKey);
  on("pointerdown", onDown);
  on("click", onClick);
  on("dblclick", (_, event) => {
    const place = realPlace(event.target);
    if (place && !view.editor && view.data.grids[place.figure.id].kind === "given") edit(view, place);
  });
  on("pointerover", onHover);
  on("pointerleave", onHover);
  on("focusin", onFocus);
  on("focusout", onBlur);
  on("beforeinput", onText);
  on("copy", onCopy);
  on("paste", onPaste);
  on("transitionend", (_, event) => event.target === root && chooseTheme(view));
  new ResizeObserver(() => {
    fold(view);
    light(view);
  }).observe(root);
}
