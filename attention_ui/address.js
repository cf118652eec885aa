// The address bar follows the bench, and a button copies the link.
//
// history.replaceState changes the address without a new history entry, so the Back button leaves
// the page as a reader expects. Streamlit's own options (embed, embed_options) stay in the address.

const KEPT = ["embed", "embed_options"];

export default function ({ data, parentElement }) {
  follow(data.query);
  const button = parentElement.querySelector("button");
  const told = parentElement.querySelector("[role=status]");
  button.onclick = async () => {
    follow(data.query);
    told.textContent = (await copy(window.location.href)) ? data.copied : data.failed;
    clearTimeout(button.timer);
    button.timer = setTimeout(() => (told.textContent = ""), 4000);
  };
  return () => clearTimeout(button.timer);
}

function follow(query) {
  const now = new URLSearchParams(window.location.search);
  const wanted = new URLSearchParams(query);
  for (const name of KEPT) for (const value of now.getAll(name)) wanted.append(name, value);
  const search = wanted.toString();
  if (search === now.toString()) return;
  const { pathname, hash } = window.location;
  window.history.replaceState(window.history.state, "", pathname + (search && "?" + search) + hash);
}

// The clipboard is offered to secure pages only; a class on a plain http address gets the older way.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.style.position = "fixed";
    field.style.opacity = "0";
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}
