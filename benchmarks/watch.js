// Runs in a page before anything else: notes when the key is pressed that commits an edit and, from then on, when
// a message is sent and received, and when the last change inside each of `seen.marks` (name: selector) has been
// painted. What was sent or changed before that key belongs to something else.
(() => {
  const COMMITS = ["Enter", "ArrowLeft", "ArrowRight"];
  const seen = window.seen = { began: 0, sent: 0, bytes: 0, heard: 0, paints: {}, marks: {} };

  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(...how) {
      super(...how);
      this.addEventListener("message", message => {
        if (!seen.began) return;
        seen.bytes += message.data.byteLength ?? message.data.size ?? message.data.length;
        seen.heard = performance.now();
      });
    }

    send(data) {
      if (seen.began) seen.sent ||= performance.now();
      return super.send(data);
    }
  };

  addEventListener("keydown", event => {
    if (event.isTrusted && COMMITS.includes(event.key)) seen.began ||= performance.now();
  }, true);

  const nameOf = node => {
    for (let at = node; at; at = at.parentNode ?? at.host)
      for (const [name, selector] of Object.entries(seen.marks)) if (at.matches?.(selector)) return name;
  };

  // after a frame has been painted, messages come before timers
  const notePaint = name => requestAnimationFrame(() => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => { seen.paints[name] = performance.now(); };
    port2.postMessage(0);
  });

  const observer = new MutationObserver(records => {
    if (!seen.began) return;
    for (const name of new Set(records.map(record => nameOf(record.target)))) if (name) notePaint(name);
  });
  const everything = { subtree: true, childList: true, characterData: true, attributes: true };
  const attach = Element.prototype.attachShadow;
  Element.prototype.attachShadow = function (options) {
    const root = attach.call(this, options);
    observer.observe(root, everything);
    return root;
  };
  document.addEventListener("DOMContentLoaded", () => observer.observe(document.documentElement, everything));
})();
