/* What runs in the browser is plain ES modules; these are their rules. */

const browser = [
  "ArrayBuffer", "clearTimeout", "console", "document", "DOMParser", "getComputedStyle", "getSelection", "history", "location", "matchMedia",
  "MessageChannel", "navigator", "Node", "performance", "queueMicrotask", "requestAnimationFrame", "ResizeObserver", "setTimeout",
  "TextDecoder", "URL", "URLSearchParams", "window",
];

export default [
  {
    files: ["**/*.js"],
    languageOptions: {
      ecmaVersion: 2023,
      sourceType: "module",
      globals: Object.fromEntries(browser.map((name) => [name, "readonly"])),
    },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "array-callback-return": "error",
      "complexity": ["error", 16],
      "consistent-return": "error",
      "eqeqeq": "error",
      "max-len": ["error", { code: 130 }],
      "max-lines-per-function": ["error", 40],
      "no-undef": "error",
      "no-unused-vars": "error",
      "no-shadow": "error",
      "no-var": "error",
      "prefer-const": "error",
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: "Text from data becomes textContent." },
        { property: "outerHTML", message: "Text from data becomes textContent." },
        { property: "insertAdjacentHTML", message: "Text from data becomes textContent." },
      ],
    },
  },
];
