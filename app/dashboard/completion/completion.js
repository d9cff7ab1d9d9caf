// Completes the word that is typed into the strip's box, and lets the key Tab begin at the strip.

const MOST = 8;
const LEAST_LETTERS = 2;

export default function ({ parentElement, data }) {
  beginAt(parentElement);
  const input = document.querySelector(`.st-key-${data.box} input`);
  if (!input || !data.words.length) return undefined;

  const list = document.createElement("ul");
  list.id = "question-words";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", "Completions");
  list.hidden = true;
  parentElement.replaceChildren(list);
  const wasOpen = input.getAttribute("aria-expanded") === "true";
  const { read } = input.dataset;  // its text when it was last looked at
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-autocomplete", "list");
  input.setAttribute("aria-controls", list.id);
  input.autocomplete = "off";
  let active = -1, from = 0;
  const opener = document.activeElement;
  if (!input.dataset.completed && (opener === document.body || opener.closest(`.st-key-${data.opener}`))) {
    input.focus();
    input.select();
  }
  input.dataset.completed = "true";
  input.dataset.read = input.value;
  const missed = read !== undefined && read !== input.value && document.activeElement === input;

  const mark = at => {
    active = at;
    [...list.children].forEach((one, n) => one.setAttribute("aria-selected", n === at));
    if (at < 0) input.removeAttribute("aria-activedescendant");
    else input.setAttribute("aria-activedescendant", list.children[at].id);
  };
  const close = () => {
    list.hidden = true;
    list.replaceChildren();
    input.setAttribute("aria-expanded", "false");
    mark(-1);
  };
  const take = at => {
    const text = input.value.slice(0, from) + list.children[at].textContent + " ";
    const rest = input.value.slice(input.selectionStart).trimStart();
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, text + rest);
    input.setSelectionRange(text.length, text.length);
    input.dispatchEvent(new Event("input", { bubbles: true }));  // React hears of it
    close();
  };
  const open = () => {
    let found = [];
    [found, from] = completions(input.value.slice(0, input.selectionStart), data.words);
    list.replaceChildren(...found.map((word, n) => {
      const one = document.createElement("li");
      one.id = `question-word-${n}`;
      one.setAttribute("role", "option");
      one.textContent = word;
      one.addEventListener("mousedown", event => { event.preventDefault(); take(n); });
      return one;
    }));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark(-1);
  };
  const press = event => {
    const size = list.children.length;
    if (!size) return;
    if (event.key === "ArrowDown") mark((active + 1) % size);
    else if (event.key === "ArrowUp") mark((active <= 0 ? size : active) - 1);
    else if (event.key === "Escape") close();
    else if (["Enter", "Tab"].includes(event.key) && active >= 0) take(active);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const typed = event => {
    input.dataset.read = input.value;
    if (event.isTrusted) open();
  };

  input.addEventListener("input", typed);
  input.addEventListener("keydown", press, true);
  input.addEventListener("blur", close);
  if (wasOpen || missed) open();  // the page was drawn again while a word was typed
  return () => {
    input.removeEventListener("input", typed);
    input.removeEventListener("keydown", press, true);
    input.removeEventListener("blur", close);
  };
}

/** Known words that continue what was typed, and where that begins: its last two words, else one. */
function completions(text, words) {
  const starts = [...text.matchAll(/(?:^|\s)(?=\S)/g)].map(m => m.index + m[0].length);
  for (const from of starts.slice(-2)) {
    const low = text.slice(from).toLowerCase();
    if (low.trim().length < LEAST_LETTERS || /^[\d.]+$/.test(low)) continue;
    const ranked = words.map(word => [rank(word.toLowerCase(), low), word]).filter(([n]) => n < 3);
    if (!ranked.length) continue;
    ranked.sort((a, b) => a[0] - b[0] || a[1].length - b[1].length);
    return [ranked.slice(0, MOST).map(([, word]) => word), from];
  }
  return [[], text.length];
}

/** 0: begins so; 1: a part of the name does; 2: holds it; 3: does not, or is it already. */
function rank(word, low) {
  const at = word.indexOf(low);
  if (at < 0 || word === low) return 3;
  return at === 0 ? 0 : /[\s/_.-]/.test(word[at - 1]) ? 1 : 2;
}

/** Let the first press of Tab on a page that was just opened lead to what follows `place`. */
function beginAt(place) {
  if (window.tabBeginsAtQuestion || document.activeElement !== document.body) return;
  window.tabBeginsAtQuestion = true;
  const mark = document.createElement("span");
  mark.tabIndex = -1;
  place.append(mark);
  mark.focus({ preventScroll: true });
  mark.blur();
}
