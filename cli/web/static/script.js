"use strict";
// Pages work without this script. It adds suggestions to the search box, pointing in pictures, tabs, copying, dropping.

const root = document.body.dataset.root;
document.documentElement.classList.add("scripted");

const make = (name, facts = {}, ...children) => {
  const made = Object.assign(document.createElement(name), facts);
  made.append(...children);
  return made;
};

// --- Search: suggestions come from the server, or in a folder of files from the names in names.js.

const normal = text => text.toLowerCase().replace(/[^a-z0-9]+/g, " ").trim();

const address = file => root.replace(/index\.html$/, "") + file;

// A name comes with what else it is called, and the numbers of its kind, which is a vendor and the targets, and of the
// file that shows it.
function localNames(text) {
  const { kinds, names, files } = window.lanemapNames, targets = new Set(kinds.flatMap(([, ...names]) => names));
  const given = text.toLowerCase().split(/\s+/), on = given.filter(word => targets.has(word));
  const words = normal(given.filter(word => !targets.has(word)).join(" ")).split(" ").filter(Boolean);
  if (!words.length && !on.length) return [];
  // First what is called so, then what has the words one after the other, then all of them, then parts of its words.
  const phrase = ` ${words.join(" ")} `, ranks = [[], [], [], []];
  for (const each of names.filter(([, , kind]) => on.every(target => kinds[kind].includes(target)))) {
    const name = ` ${normal(each[0])} `, known = `${name}${normal(each[1])} `;
    if (name === phrase) ranks[0].push(each);
    else if (known.includes(phrase)) ranks[1].push(each);
    else if (words.every(word => known.includes(` ${word} `))) ranks[2].push(each);
    else if (words.every(word => known.includes(word))) ranks[3].push(each);
  }
  return ranks.flat().map(([name, , kind, file]) => {
    const [vendor, ...target] = kinds[kind], [instruction, , type] = name.split(" ");
    return { name, href: address(files[file]), facets: { vendor: [vendor], instruction: [instruction], target, type: [type] } };
  });
}

// The pages of the guide that have all words of a text, those first whose name or title has them.
function localGuide(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean), all = said => words.every(word => said.includes(word));
  const named = ({ name, title }) => all(`${name} ${title}`.toLowerCase());
  return window.lanemapNames.guide.filter(([, , said]) => words.length && all(said))
    .map(([name, title]) => ({ name, title, href: address(name.replace(" ", "/") + ".html") }))
    .sort((one, other) => named(other) - named(one));
}

// The page that a text names to the letter, or alone.
const exactly = (text, [first, ...others]) => first && (!others.length || normal(first.name) === normal(text)) ? first : null;

// The page of a search in a folder of files: what is found, narrowed by the facets in its address, and all of these.
// What is named exactly is shown instead.
function results(area) {
  const asked = new URLSearchParams(location.search), text = asked.get("q")?.trim();
  if (!text) return;
  const every = localNames(text), names = ["vendor", "instruction", "target", "type"];
  const left = but => every.filter(each => names.every(name => name === but || !asked.get(name) || each.facets[name].includes(asked.get(name))));
  const found = left(), read = localGuide(text), exact = exactly(text, every) ?? read.find(({ name }) => name === text);
  if (exact) return location.replace(exact.href);
  document.getElementById("q").value = text;
  area.querySelector("h1").textContent = `${(found.length ? found : read).length} found for ${text}`;
  if (found.length || read.length) area.querySelector("p").remove();
  for (const name of names) {
    const counts = {};
    for (const value of left(name).flatMap(each => each.facets[name]).filter(Boolean)) counts[value] = (counts[value] ?? 0) + 1;
    const values = Object.keys(counts).sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    if (values.length < 2 && !asked.get(name)) continue;
    const bar = make("nav", { className: "switch", ariaLabel: "By " + name }, make("span", { className: "muted", textContent: name }));
    for (const value of values) {
      const taken = asked.get(name) === value, next = new URLSearchParams(asked);
      taken ? next.delete(name) : next.set(name, value);
      const link = make("a", { href: "?" + next }, value + " ", make("span", { className: "count", textContent: counts[value] }));
      if (taken) link.setAttribute("aria-current", "true");
      bar.append(link);
    }
    area.append(bar);
  }
  const list = (pages, said) => make("ul", { className: "results" }, ...pages.map(each => make("li", {}, make("a", { href: each.href }, said(each)))));
  area.append(list(found, ({ name }) => make("code", { textContent: name })));
  if (read.length) area.append(make("h2", { textContent: "In the guide" }), list(read, ({ title }) => title));
}

async function remoteNames(text) {
  const address = document.querySelector(".search").action + "?" + new URLSearchParams({ q: text });
  const answer = await fetch(address, { headers: { Accept: "application/json" } });
  return answer.ok ? answer.json() : [];
}

function search(form) {
  const input = form.querySelector("input"), list = form.querySelector("ul");
  let chosen = -1, asked = 0;
  const close = () => { list.hidden = true; chosen = -1; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); };
  const choose = at => {
    chosen = at;
    [...list.children].forEach((each, index) => each.setAttribute("aria-selected", index === at));
    if (at < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", list.children[at].id);
    list.children[at].scrollIntoView({ block: "nearest" });
  };
  const go = item => { location.href = item.dataset.href; };
  const suggest = async () => {
    const mine = ++asked, text = input.value;
    if (!window.lanemapNames) await new Promise(done => setTimeout(done, 100));
    if (mine !== asked) return; // somebody types on
    const found = text.trim() ? await (window.lanemapNames ? [...localNames(text), ...localGuide(text)].slice(0, 12) : remoteNames(text)) : [];
    if (mine !== asked) return;
    list.replaceChildren(...found.map((each, at) => {
      const item = make("li", { id: "found-" + at, role: "option", textContent: each.name });
      item.dataset.href = each.href;
      item.setAttribute("role", "option");
      item.setAttribute("aria-selected", "false");
      return item;
    }));
    chosen = -1;
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
  };
  input.addEventListener("input", suggest);
  input.addEventListener("keydown", event => {
    const count = list.hidden ? 0 : list.children.length;
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown" && count) choose((chosen + 1) % count);
    else if (event.key === "ArrowUp" && count) choose((chosen + count - (chosen < 0 ? 0 : 1)) % count);
    else if (event.key === "Enter" && chosen >= 0) go(list.children[chosen]);
    else return;
    event.preventDefault();
  });
  list.addEventListener("pointerdown", event => { const item = event.target.closest("li"); if (item) { event.preventDefault(); go(item); } });
  input.addEventListener("blur", close);
  form.addEventListener("submit", event => {
    const exact = window.lanemapNames && exactly(input.value, localNames(input.value));
    if (!exact) return;
    event.preventDefault();
    location.href = exact.href;
  });
  document.addEventListener("keydown", event => {
    if (event.key === "/" && !event.target.closest("input, textarea, select")) { event.preventDefault(); input.focus(); }
  });
}

// --- Pictures: what a cell says is its text, and that of the headers of its row and column.

const span = text => { const [first, last] = text.split("-").map(Number); return [first, last === undefined ? first : last]; };
const meet = (one, other) => one[0] <= other[1] && other[0] <= one[1];
const inWords = ([first, last]) => first === last ? `${first}` : `${first} to ${last}`;
const inBank = ({ reg }) => `word ${reg}, byte ${4 * reg}, bank ${reg % 32}`;
const inBrackets = cells => cells.map(each => `(${each.map(([first, last]) => first === last ? first : `${first}-${last}`).join(", ")})`);

function readCell(cell) {
  const table = cell.closest("table"), line = cell.parentElement;
  const down = line.cells[0].textContent, across = table.tHead.rows[0].cells[cell.cellIndex].textContent;
  const { role, axes, part, by, unit } = table.dataset;
  if (by === "lane") {
    const lane = parseInt(down), [reg, slots] = across.split(" ")[0].split(".");
    const cells = cell.textContent.split("+").map(each => each.split(",").map(span));
    return { role, axes, part, by, unit, held: [{ lane, reg: Number(reg), slots: span(slots) }], cells };
  }
  if (by === "bank") {
    const reg = 32 * parseInt(down) + Number(across), empty = cell.textContent.trim() === "-";
    const cells = empty ? [] : cell.textContent.split("+").map(each => each.split(",").map(span));
    return { role, axes, part, by, unit, held: empty ? [] : [{ lane: 0, memory: true, reg, slots: [0, 31] }], cells };
  }
  if (by === "address") {
    const lane = parseInt(cell.textContent.slice(5));
    return { role, axes, part, by, unit, held: isNaN(lane) ? [] : [{ lane, reg: -1, slots: [0, 0] }], cells: [[span(down), span(across)]] };
  }
  const held = cell.textContent.split("+").map(each => each.match(/(?:(\d+):)?(\d+)\.(\d+)(?:(?:-|.*\|)(\d+))?/)).filter(Boolean)
    .map(found => ({ lane: Number(found[1] ?? 0), memory: !found[1], reg: Number(found[2]), slots: [Number(found[3]), Number(found[4] ?? found[3])] }));
  return { role, axes, part, unit, held, cells: [[span(down), span(across)]] };
}

// A note says which rows, columns, lanes or registers are left out because they repeat others, and how they differ.
function foldOf(note) {
  const [, kind, first, last] = note.textContent.match(/^([\w ]+)s (\d+)-(\d+) repeat/) ?? [];
  const moves = [...note.textContent.matchAll(/the ([\w ]+?) is (\d+) (higher|lower)/g)];
  const unit = name => ["word", "memory column"].includes(name) ? "register" : name;
  const step = Number(first), shift = moves.map(([, name, by, way]) => [unit(name), way === "lower" ? -by : Number(by)]);
  return kind && { times: (Number(last) + 1) / step, shift: { ...Object.fromEntries(shift), [unit(kind.toLowerCase())]: step } };
}

// What a cell says, and then all that it stands for where the picture is folded.
function repeated(facts, folds) {
  const moved = ({ held, cells, ...rest }, { lane = 0, register = 0, slot = 0, row = 0, column = 0 }, times) => {
    const by = (span, each) => span.map(number => number + times * each);
    return {
      ...rest, held: held.map(each => ({ ...each, lane: each.lane + times * lane, reg: each.reg + times * register, slots: by(each.slots, slot) })),
      cells: cells.map(([rows, cols]) => [by(rows, row), by(cols, column)]),
    };
  };
  return folds.reduce((all, { times, shift }) => [...Array(times).keys()].flatMap(at => all.map(each => moved(each, shift, at))), [facts]);
}

function pictures() {
  const areas = [...document.querySelectorAll("[data-picture]")];
  if (!areas.length) return;
  const tables = areas.flatMap(area => [...area.querySelectorAll("table.grid")]);
  const cells = tables.flatMap(table => [...table.tBodies[0].querySelectorAll("td")]);
  const folds = new Map(tables.map(table => [table, [...table.parentElement.querySelectorAll(".note")].map(foldOf).filter(Boolean)]));
  const known = new Map(cells.map(cell => [cell, repeated(readCell(cell), folds.get(cell.closest("table")))]));
  // Of several scales or metadata one is chosen to be seen.
  const chosen = ([cell, { role }]) => { const at = cell.closest(".operand")?.className.match(/\bv(\d+)/)[1]; return document.getElementById(`${role}-${at}`)?.checked ?? true; };
  const all = [...known].flatMap(([cell, all]) => all.map(facts => [cell, facts]));
  let every = all.filter(chosen);
  const say = document.querySelector("[data-say]"), hint = say.textContent;
  const lanes = [...document.querySelectorAll("a[data-lane]")];
  const roles = new Set(tables.map(table => table.dataset.role));
  const sizes = Object.fromEntries(tables.map(table => [table.dataset.role, table.dataset.size.match(/\d+/g).map(Number)]));
  let pinned = null, cursor = null;

  const clear = () => { cells.forEach(cell => cell.classList.remove("on", "meets")); tables.forEach(table => table.classList.remove("picked")); };
  const light = (on, meets = []) => {
    clear();
    tables.forEach(table => table.classList.add("picked"));
    on.forEach(([cell]) => cell.classList.add("on"));
    meets.forEach(([cell]) => cell.classList.add("meets"));
  };
  // On the page of a chain an element stands in each tile of its operand, and K of the second one in an order of its own.
  const chain = document.querySelector("[data-tiles]"), order = chain && JSON.parse(chain.dataset.tiles);
  if (order) for (const [, facts] of all) if (facts.role !== "D") {
    const at = facts.role === "B" ? 0 : 1;
    facts.places = facts.cells.flatMap(cell => order.slice(cell[at][0], cell[at][1] + 1).map(place => cell.with(at, [place, place])));
  }
  // Two cells meet where the dimensions that both count overlap: a row of A and a cell of D share M.
  const meeting = (one, other) => {
    if (one.part !== other.part) return false;
    const shared = [...one.axes].map((axis, at) => [at, other.axes.indexOf(axis)]).filter(([at, place]) => place >= 0 && one.axes[at] !== "1");
    const inTile = (span, tile) => chain ? span.map(each => each % tile) : span;
    const alike = (mine, theirs) => shared.every(([at, place]) => {
      const tile = chain && Math.min(sizes[one.role][at], sizes[other.role][place]);
      return meet(inTile(mine[at], tile), inTile(theirs[place], tile));
    });
    return shared.length > 0 && (one.places ?? one.cells).some(mine => (other.places ?? other.cells).some(theirs => alike(mine, theirs)));
  };
  const sameLane = (lane, facts) => facts.held.some(each => !each.memory && each.lane === lane);
  const lightLane = lane => {
    const held = every.filter(([, facts]) => sameLane(lane, facts)), parts = {};
    light(held);
    for (const [, facts] of held) if (facts.by !== "lane") (parts[facts.role] ??= []).push(...facts.cells);
    const first = cells => inBrackets(cells.sort(([row, col], [otherRow, otherCol]) => row[0] - otherRow[0] || col[0] - otherCol[0]).slice(0, 8)).join(" ");
    say.textContent = `Lane ${lane} holds ` + Object.entries(parts).map(([role, all]) => `${role} ${first(all)}${all.length > 8 ? ` and ${all.length - 8} more` : ""}`).join("; ") + ".";
  };
  const lightCell = (cell, facts = known.get(cell)[0]) => {
    if (!facts.held.length || !/\d/.test(cell.textContent)) return;
    const here = (mine, theirs) => mine.lane === theirs.lane && mine.reg === theirs.reg && meet(mine.slots, theirs.slots);
    const same = every.filter(([each, other]) => each === cell || (other.role === facts.role && facts.held.some(mine => other.held.some(theirs => here(mine, theirs))) && meeting(facts, other)));
    const meets = every.filter(([, other]) => other.role !== facts.role && meeting(facts, other));
    light(same, meets);
    const [rows, cols] = facts.cells[0];
    const held = facts.by === "address" ? `lane ${facts.held[0].lane} passes its address` : facts.held.map(each => `${each.memory ? inBank(each) : `lane ${each.lane}, ${facts.unit} ${each.reg}`}${facts.by === "bank" ? "" : `, slot ${inWords(each.slots)}`}`).join(" and ");
    const others = {}, inMemory = new Set(meets.filter(([, each]) => each.held.some(one => one.memory)).map(([, each]) => each.role));
    for (const [, each] of meets) if (each.by !== "lane") (others[each.role] ??= new Set()).add(chain ? `${inBrackets(each.cells)} ${each.held.map(one => one.memory ? "at " + inBank(one) : `of lane ${one.lane}, register ${one.reg}`).join("+")}` : each.held.map(one => one.memory ? one.reg : one.lane).join("+"));
    const met = Object.entries(others).map(([role, all]) => chain ? `${role} ${[...all].join(", ")}` : `${role} in ${inMemory.has(role) ? "words" : "lanes"} ${[...all].sort(new Intl.Collator("en", { numeric: true }).compare).join(" ")}`).join("; ");
    say.textContent = `${facts.role} row ${inWords(rows)}, column ${inWords(cols)}: ${held}.` + (met ? ` ${chain ? (inMemory.size || facts.by === "bank" ? "It is" : "Tile by tile it is") : "It meets"} ${met}.` : "");
  };
  const restore = () => { clear(); say.textContent = hint; if (pinned !== null) lightLane(pinned); else if (cursor) lightCell(cursor); };
  const pin = lane => {
    pinned = pinned === lane ? null : lane;
    lanes.forEach(each => Number(each.dataset.lane) === pinned ? each.setAttribute("aria-current", "true") : each.removeAttribute("aria-current"));
    const address = new URL(location.href);
    pinned === null ? address.searchParams.delete("lane") : address.searchParams.set("lane", pinned);
    history.replaceState(null, "", address);
    document.getElementById("held")?.remove();
    leave();
    restore();
  };
  // The address of an element is its role, where there are several, with its row and column in one of the products.
  const link = cell => {
    const [facts] = known.get(cell), address = new URL(location.href);
    if (!facts.cells.length) return;
    const [[row], [col]] = facts.cells[0];
    const said = { role: roles.size > 1 && facts.role !== "D" ? facts.role : null, part: facts.part, row, col };
    for (const [name, value] of Object.entries(said)) value === null || value === undefined ? address.searchParams.delete(name) : address.searchParams.set(name, value);
    history.replaceState(null, "", address);
  };
  const linked = () => {
    const asked = new URLSearchParams(location.search), [row, col] = ["row", "col"].map(name => parseInt(asked.get(name)));
    const role = asked.get("role") ?? (roles.has("D") ? "D" : [...roles][0]), at = [[row, row], [col, col]];
    const named = facts => facts.role === role && (facts.part ?? null) === asked.get("part") && facts.cells.some(each => meet(each[0], at[0]) && meet(each[1], at[1]));
    return every.find(([, facts]) => named(facts));
  };
  const leave = () => { cursor?.classList.remove("cursor"); cursor = null; };
  const place = (cell, facts) => { leave(); cursor = cell; cell.classList.add("cursor"); if (!cell.offsetParent) document.getElementById("at-" + known.get(cell)[0].role)?.click(); cell.scrollIntoView({ block: "nearest", inline: "nearest" }); lightCell(cell, facts); };
  const step = (area, key) => {
    const mine = cells.filter(cell => area.contains(cell) && cell.offsetParent);
    if (!cursor || !area.contains(cursor)) return place(mine[0]);
    const here = cursor.getBoundingClientRect(), across = key.endsWith("Left") || key.endsWith("Right"), sign = /Left|Up/.test(key) ? -1 : 1;
    let best = null, least = Infinity;
    for (const cell of mine) {
      const there = cell.getBoundingClientRect();
      const ahead = sign * (across ? there.left - here.left : there.top - here.top), aside = Math.abs(across ? there.top - here.top : there.left - here.left);
      const far = ahead + 20 * aside;
      if (ahead > 1 && far < least) { least = far; best = cell; }
    }
    if (best) place(best);
  };

  for (const area of areas) {
    area.addEventListener("pointerover", event => { const cell = event.target.closest("tbody td"); if (cell && event.pointerType !== "touch") lightCell(cell); });
    area.addEventListener("pointerleave", event => { if (event.pointerType !== "touch") restore(); });
    area.addEventListener("click", event => { const cell = event.target.closest("tbody td"); if (cell) { place(cell); link(cell); } });
    area.addEventListener("keydown", event => {
      if (event.key.startsWith("Arrow")) { event.preventDefault(); step(area, event.key); }
      else if (event.key === "Enter" && cursor) { const [first] = known.get(cursor)[0].held; if (first) pin(first.lane); }
      else if (event.key === "Escape") { leave(); restore(); }
    });
  }
  for (const each of document.querySelectorAll(".choose input")) each.addEventListener("change", () => { every = all.filter(chosen); if (cursor && !cursor.offsetParent && each.name !== "operand") leave(); restore(); });
  for (const each of lanes) {
    const lane = Number(each.dataset.lane);
    each.addEventListener("pointerenter", () => lightLane(lane));
    each.addEventListener("pointerleave", restore);
    each.addEventListener("focus", () => lightLane(lane));
    each.addEventListener("blur", restore);
    each.addEventListener("click", event => { event.preventDefault(); pin(lane); });
  }
  const asked = new URLSearchParams(location.search).get("lane");
  if (asked !== null && /^\d+$/.test(asked)) { pinned = Number(asked); if (every.some(([, facts]) => sameLane(pinned, facts))) { restore(); lanes.forEach(each => Number(each.dataset.lane) === pinned && each.setAttribute("aria-current", "true")); } else pinned = null; }
  const shared = linked();
  if (shared) place(...shared);
}

// --- Tabs, of sections that follow each other without this script.

function tabs(holder) {
  const sections = [...holder.querySelectorAll(":scope > section")];
  const bar = make("div", { className: "tabs" });
  bar.setAttribute("role", "tablist");
  const buttons = sections.map(section => {
    const button = make("button", { type: "button", id: "tab-" + section.id, textContent: section.querySelector("h3").textContent });
    button.setAttribute("role", "tab");
    button.setAttribute("aria-controls", section.id);
    section.setAttribute("role", "tabpanel");
    section.setAttribute("aria-labelledby", button.id);
    section.querySelector("h3").hidden = true;
    return button;
  });
  const show = at => sections.forEach((section, index) => {
    section.hidden = index !== at;
    buttons[index].setAttribute("aria-selected", index === at);
    buttons[index].tabIndex = index === at ? 0 : -1;
  });
  const named = () => Math.max(0, sections.findIndex(section => "#" + section.id === location.hash));
  const choose = at => { show(at); history.replaceState(null, "", "#" + sections[at].id); };
  buttons.forEach((button, at) => button.addEventListener("click", () => choose(at)));
  addEventListener("hashchange", () => show(named()));
  bar.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length;
    choose(at);
    buttons[at].focus();
  });
  bar.append(...buttons);
  holder.prepend(bar);
  show(named());
}

function copying(text) {
  const button = make("button", { type: "button", textContent: "Copy" });
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text.textContent); button.textContent = "Copied"; }
    catch { getSelection().selectAllChildren(text); button.textContent = "Selected"; }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  const holder = make("div", { className: "copied" });
  text.replaceWith(holder);
  holder.append(text, button);
}

// --- A dropped file is compared; the server does not keep it.

function dropping(area) {
  const input = area.querySelector("input"), refused = document.querySelector("[data-refused]"), report = document.querySelector("[data-report]");
  const send = async file => {
    if (!file) return;
    refused.textContent = "";
    report.textContent = `Comparing ${file.name} …`;
    const form = document.querySelector(".ask"), { left: _, right: against, ...only } = Object.fromEntries(new FormData(form));
    const address = form.action + "?" + new URLSearchParams({ against, ...only });
    try {
      const answer = await fetch(address, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } });
      const text = await answer.text();
      if (answer.ok) report.innerHTML = text; // made and escaped by the server
      else { report.textContent = ""; refused.textContent = `${file.name}: ${JSON.parse(text).detail}`; }
    } catch { report.textContent = ""; refused.textContent = `${file.name} could not be sent`; }
    report.focus();
  };
  input.addEventListener("change", () => send(input.files[0]));
  for (const name of ["dragenter", "dragover"]) area.addEventListener(name, event => { event.preventDefault(); area.classList.add("over"); });
  for (const name of ["dragleave", "drop"]) area.addEventListener(name, event => { event.preventDefault(); area.classList.remove("over"); });
  area.addEventListener("drop", event => send(event.dataTransfer.files[0]));
}

search(document.querySelector(".search"));
pictures();
document.querySelectorAll("[data-results]").forEach(results);
document.querySelectorAll("[data-tabs]").forEach(tabs);
document.querySelectorAll("[data-copy]").forEach(copying);
document.querySelectorAll("[data-drop]").forEach(dropping);
document.querySelectorAll("textarea").forEach(area => area.addEventListener("keydown", event => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) area.form.requestSubmit();
}));
