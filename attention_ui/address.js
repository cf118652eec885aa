// A button that copies the link. The board keeps the address bar at what is shown (board.js).

const PATIENCE = 3000; // ms

export default function ({ data, parentElement }) {
  const button = parentElement.querySelector("button");
  const told = parentElement.querySelector("[role=status]");
  let timer;
  button.onclick = async () => {
    await entered();
    told.textContent = (await copy(window.location.href)) ? data.copied : data.failed;
    clearTimeout(timer);
    timer = setTimeout(() => (told.textContent = ""), 4000);
  };
  return () => clearTimeout(timer);
}

// A number that was left in its cell for this button is on its way to the server, and then to the address.
async function entered() {
  const until = performance.now() + PATIENCE;
  while (globalThis.attentionBoard?.isInAddress?.() === false && performance.now() < until)
    await new Promise((resolve) => setTimeout(resolve, 30));
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
