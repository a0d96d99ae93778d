// The documentation's pages: the theme that was chosen in the estimator, and search. All else works without scripts.

const { documentElement: root, currentScript } = document;
const INDEX = new URL(currentScript.dataset.index, document.baseURI);
// The addresses in the index begin at the folder of the first page.
const DOCS = new URL("docs/", INDEX);
const MOST = 20;

try {
  const theme = localStorage.getItem("highwater-theme");
  if (theme) root.dataset.theme = theme;
} catch {
  // A browser that keeps nothing has the system's theme.
}

/** How often words begin with `word` in a text, and whether it occurs at all. */
function count(text, word) {
  let begins = 0;
  let at = text.indexOf(word);
  const occurs = at >= 0;
  for (; at >= 0 && begins < 5; at = text.indexOf(word, at + 1)) {
    if (at === 0 || !/[\p{L}\p{N}]/u.test(text[at - 1])) begins += 1;
  }
  return { begins, occurs };
}

/** How well a section answers to all words; 0 if one of them is nowhere in it. */
function rank(section, words) {
  let sum = 0;
  for (const word of words) {
    const [page, heading, text] = [section.page, section.heading, section.text].map((it) => count(it.toLowerCase(), word));
    if (!page.occurs && !heading.occurs && !text.occurs) return 0;
    sum += (page.begins > 0 ? 8 : 0) + (heading.begins > 0 ? 12 : 0) + text.begins * 2 + 1;
  }
  if (words.length > 1 && section.text.toLowerCase().includes(words.join(" "))) sum += 10;
  return sum;
}

/** The sections that have all words, the best first; endings are left off where nothing has them as they are. */
function search(sections, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const stems = words.map((word) => word.replace(/(?<=\w{3})(ing|ed|es|s)$/, ""));
  for (const tried of [words, stems]) {
    const ranked = sections.map((section) => ({ section, sum: rank(section, tried) }));
    const found = ranked.filter(({ sum }) => sum > 0).sort((a, b) => b.sum - a.sum);
    if (found.length > 0) return { found: found.map(({ section }) => section), words: tried };
  }
  return { found: [], words };
}

/** The part of a text around the first of the words, with all words marked. */
function excerpt(text, words) {
  const lower = text.toLowerCase();
  const first = Math.max(0, Math.min(...words.map((word) => lower.indexOf(word)).filter((at) => at >= 0), text.length));
  const begin = first < 70 || first === text.length ? 0 : text.lastIndexOf(" ", first - 50) + 1;
  // Both ends are between words.
  const end = text.length <= begin + 180 ? text.length : text.lastIndexOf(" ", begin + 180);
  const short = text.slice(begin, end);
  const line = document.createElement("span");
  const escaped = words.map((word) => word.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  line.append(begin > 0 ? "… " : "");
  for (const [at, part] of short.split(new RegExp(`(${escaped.join("|")})`, "iu")).entries()) {
    if (at % 2 === 0) line.append(part);
    else line.append(Object.assign(document.createElement("mark"), { textContent: part }));
  }
  line.append(end < text.length ? " …" : "");
  return line;
}

/** An entry of the results. */
function entry({ title, heading, address, text }, words) {
  const link = Object.assign(document.createElement("a"), { href: new URL(address, DOCS).href });
  const name = heading === title ? title : `${title} › ${heading}`;
  link.append(Object.assign(document.createElement("strong"), { textContent: name }), excerpt(text, words));
  const item = document.createElement("li");
  item.append(link);
  return item;
}

let fetched;

/** All sections, fetched once, when they are first needed. */
function sections() {
  fetched ??= fetch(INDEX).then(async (response) => {
    if (!response.ok) throw new Error(response.statusText);
    const pages = await response.json();
    return pages.flatMap(([title, at, parts]) =>
      parts.map(([heading, id, text]) => ({ title, page: title, heading, address: id ? `${at}#${id}` : at, text })),
    );
  });
  // What failed is tried again with the next letter.
  fetched.catch(() => (fetched = undefined));
  return fetched;
}

function begin() {
  const field = document.getElementById("search");
  const found = document.getElementById("found");
  const [status, list] = [found.querySelector("p"), found.querySelector("ol")];
  field.closest("[role=search]").hidden = false;

  const show = (text, entries = []) => {
    status.textContent = text;
    list.replaceChildren(...entries);
    found.classList.toggle("is-open", text !== "");
  };
  const answer = async () => {
    const query = field.value.trim();
    if (query === "") return show("");
    try {
      const all = await sections();
      // Somebody may have typed on.
      if (query !== field.value.trim()) return;
      const { found, words } = search(all, query);
      const shown = found.slice(0, MOST).map((section) => entry(section, words));
      const of = found.length > MOST ? `The first ${MOST} of ${found.length} results` : `${found.length} results`;
      show(found.length === 0 ? `Nothing found for “${query}”` : found.length === 1 ? "1 result" : of, shown);
    } catch {
      show("The search could not be loaded: try again when you have a network");
    }
  };
  field.addEventListener("focus", () => sections().catch(() => {}), { once: true });
  field.addEventListener("input", answer);

  const links = () => [...list.querySelectorAll("a")];
  document.addEventListener("keydown", (event) => {
    const { key, target } = event;
    const isInside = target === field || found.contains(target);
    const at = links().indexOf(target);
    let next;
    if (key === "/" && !isInside && !event.ctrlKey && !event.metaKey && !event.altKey) next = field;
    else if (key === "Escape" && isInside) {
      next = field;
      if (target === field) field.value = "";
      show("");
    } else if (isInside && key === "ArrowDown") next = links()[at + 1];
    else if (isInside && key === "ArrowUp" && at >= 0) next = at === 0 ? field : links()[at - 1];
    else if (target === field && key === "Enter") next = links()[0];
    if (!next) return;
    event.preventDefault();
    next.focus();
    if (target === field && key === "Enter") next.click();
  });
  document.addEventListener("click", ({ target }) => {
    if (!found.contains(target) && target !== field) show("");
    // A result on this page only scrolls.
    else if (target.closest("a")) show("");
  });

  const contents = document.querySelector(".docs-contents details");
  const isNarrow = matchMedia("(max-width: 75em)");
  const fold = () => contents && (contents.open = !isNarrow.matches);
  isNarrow.addEventListener("change", fold);
  fold();

  // The list of pages shows where this page is in it.
  const pages = document.getElementById("pages");
  const current = pages.querySelector("[aria-current]");
  if (current) pages.scrollTop = current.offsetTop - pages.clientHeight / 2;

  // A stop of the keyboard only where something scrolls.
  const scrolled = document.querySelectorAll(".docs-scroll, article pre");
  const stops = () => scrolled.forEach((it) => (it.tabIndex = it.scrollWidth > it.clientWidth ? 0 : -1));
  new ResizeObserver(stops).observe(root);
}

document.addEventListener("DOMContentLoaded", begin);
