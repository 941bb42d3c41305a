"use strict";
// What sites write is put into the page as text only, never as markup.

const $ = (id) => document.getElementById(id);
const NEVER = 1e11;
const TOKEN = "robotgate-token";
const ORDERS = {
  waiting: "Waiting", blocked: "Blocked", slow: "Slow", failing: "Failing", visits: "Most visited", refused: "Refused",
};
const NAMES = { visits: "Requests", bytes_read: "Read", refused: "Refused", waiting: "Waiting", open_turns: "Under way" };
const ACCESS = {
  excluded: "nothing allowed", open: "all allowed", controlled: "some allowed", unreachable: "cannot be read",
};

const samples = Object.fromEntries(Object.keys(NAMES).map((name) => [name, [0]]));
let before = null;
let now = 0;
let controller = null;
let robotsOf = "";
let isPaused = false;

// Words.

const count = (number) => Math.round(number).toLocaleString("en");

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit < units.length - 1) { bytes /= 1000; unit += 1; }
  return `${unit && bytes < 99.5 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

function span(seconds) {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  if (seconds < 3570) return `${Math.round(seconds / 60)} min`;
  if (seconds < 86400) {
    const minutes = Math.round(seconds / 60);
    return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
  }
  const days = Math.round(seconds / 86400);
  return days === 1 ? "1 day" : `${count(days)} days`;
}

function coming(at) {
  if (at >= NEVER) return "never";
  const seconds = Math.round((at - now) * 10) / 10;
  // A tenth of a second is as near as a reader can follow.
  return seconds <= 0 ? "now" : `in ${seconds < 1 ? `${seconds} s` : span(seconds)}`;
}

function past(at) {
  if (at === null || at === undefined) return "never";
  const seconds = now - at;
  return seconds < 1 ? "just now" : `${span(Math.round(seconds * 10) / 10)} ago`;
}

function until(at) {
  if (at >= NEVER) return "until lifted";
  const when = new Date(at * 1000);
  const isNear = at - now < 72000;
  const clock = when.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return `until ${isNear ? clock : `${when.toLocaleDateString()} ${clock}`} (${coming(at)})`;
}

const asked = (row) => `asked by ${row.asked_by} ${until(row.asked_until_at)}`;

// A word for the colour, and the state in short and in full.
function stateOf(row) {
  if (row.blocked_by_operator_until_at !== null) {
    return ["blocked", "blocked by you", `blocked by you ${until(row.blocked_by_operator_until_at)}`];
  }
  if (row.unreachable_until_at !== null) {
    const why = row.outage ? ` (${row.outage})` : "";
    return ["down", "cannot be reached", `cannot be reached${why}; next try ${coming(row.unreachable_until_at)}`];
  }
  if (row.access === "unreachable") {
    return ["down", "robots.txt cannot be read", "its robots.txt cannot be read, so nothing is fetched"];
  }
  if (row.blocked_until_at !== null) {
    return ["paused", "asked for a pause", `asked for a pause ${until(row.blocked_until_at)}`];
  }
  if (row.beyond_budget_of !== null) {
    const when = coming(row.next_allowed_at);
    return ["paused", "budget used up", `the budget of ${row.beyond_budget_of} is used up; next page ${when}`];
  }
  if (row.asked_by !== null || row.learned_delay) {
    const why = [row.asked_by !== null && asked(row), row.learned_delay && `learned delay ${span(row.learned_delay)}`];
    return ["paused", "slowed down", `slowed down: ${why.filter(Boolean).join("; ")}`];
  }
  if (row.open_turns) {
    const text = row.open_turns > 1 ? `${row.open_turns} requests under way` : "request under way";
    return ["busy", text, text];
  }
  if (row.waiting) return ["waiting", "waiting", `next request ${coming(row.next_allowed_at)}`];
  if (row.access === "excluded") return ["idle", "nothing allowed", "its rules allow nothing"];
  const text = row.visits ? "idle" : "not visited";
  return ["idle", text, text];
}

// Elements.

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function make(name, text = "", attributes = {}) {
  const element = document.createElement(name);
  element.textContent = text;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

// A button that is disabled would lose the focus: another takes it.
function enable(button, isEnabled, other) {
  if (!isEnabled && document.activeElement === button) {
    other.disabled = false;
    other.focus();
  }
  button.disabled = !isEnabled;
}

function line(svg, samples) {
  const most = Math.max(...samples, 1e-9);
  const first = 120 - samples.length;
  const points = samples.map((value, at) => `${(((first + at) / 119) * 100).toFixed(1)},${(26 - (value / most) * 24).toFixed(1)}`);
  let drawn = svg.firstElementChild;
  if (!drawn) {
    svg.setAttribute("viewBox", "0 0 100 28");
    svg.setAttribute("preserveAspectRatio", "none");
    drawn = svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "polyline"));
  }
  drawn.setAttribute("points", points.join(" "));
}

const COLUMNS = [
  { head: "Origin", kind: "name" },
  { head: "State", kind: "state", order: "blocked" },
  { head: "Waiting", kind: "number", order: "waiting", text: (row) => count(row.waiting), zero: (row) => !row.waiting },
  { head: "Next due", kind: "number", label: "Due", text: (row) => coming(row.next_allowed_at) },
  { head: "Response", kind: "number", order: "slow", text: (row) => row.latency === null ? "–" : span(row.latency), zero: (row) => row.latency === null },
  { head: "Failures", kind: "number", order: "failing", text: (row) => count(row.failing), zero: (row) => !row.failing },
  { head: "Visits", kind: "number", order: "visits", text: (row) => count(row.visits), zero: (row) => !row.visits },
  { head: "Refused", kind: "number", order: "refused", text: (row) => count(row.refused), zero: (row) => !row.refused },
  { head: "Rules", kind: "rules", text: (row) => `${ACCESS[row.access]}${row.stale ? ", by an old copy" : ""}` },
];

function newRow(origin) {
  const row = make("tr", "", { role: "row", "data-origin": origin });
  for (const column of COLUMNS) {
    const cell = make("td", "", { role: "cell", class: column.kind });
    if (column.text && column.kind !== "rules") cell.dataset.label = column.label ?? column.head;
    if (column.kind === "name") {
      cell.append(make("a", origin, { href: `#${new URLSearchParams({ host: origin })}` }), make("small"));
    }
    row.append(cell);
  }
  return row;
}

function fill(element, row) {
  COLUMNS.forEach((column, at) => {
    const cell = element.children[at];
    if (column.kind === "name") {
      // The pace key, where it is not simply the host.
      const isOther = row.host !== new URL(row.origin).hostname.replace(/^\[|\]$/g, "") && row.host !== row.origin;
      put(cell.lastChild, isOther ? `paced as ${row.host}` : "");
      cell.lastChild.hidden = !isOther;
    } else if (column.kind === "state") {
      const [kind, text] = stateOf(row);
      cell.className = `state ${kind}`;
      put(cell, text);
    } else {
      put(cell, column.text(row));
      cell.classList.toggle("zero", column.zero ? column.zero(row) : false);
      cell.classList.toggle("empty", column.zero ? column.zero(row) : false);
    }
  });
}

// Where the reader is: #host=… or #order=…&search=…&page=…

function place() {
  const given = new URLSearchParams(location.hash.slice(1));
  const order = given.get("order");
  return {
    host: given.get("host") ?? "",
    order: Object.hasOwn(ORDERS, order) ? order : "waiting",
    search: given.get("search") ?? "",
    page: Math.max(parseInt(given.get("page") ?? "0", 10) || 0, 0),
  };
}

function go(change, isSmall = false) {
  const { order, search, page } = { ...place(), page: 0, ...change };
  const hash = `#${new URLSearchParams({ order, ...(search && { search }), ...(page && { page }) })}`;
  if (isSmall) { history.replaceState(null, "", hash); arrive(); } else { location.hash = hash; }
}

let wasHost = null;
function arrive() {
  const here = place();
  $("list").hidden = Boolean(here.host);
  $("host").hidden = !here.host;
  document.body.classList.toggle("on-host", Boolean(here.host));
  for (const button of $("orders").children) {
    button.setAttribute("aria-pressed", String(button.dataset.order === here.order));
  }
  for (const head of $("heads").children) {
    if (head.dataset.order === here.order) head.setAttribute("aria-sort", "descending");
    else head.removeAttribute("aria-sort");
  }
  if (document.activeElement !== $("search")) $("search").value = here.search;
  document.title = here.host ? `${here.host} · robotgate` : "robotgate";
  if (here.host) {
    if (wasHost !== here.host) clearHost(here.host);
  } else {
    $("back").href = location.hash || "#";
    $("hosts").setAttribute("aria-busy", "true");
    if (wasHost) {
      const row = [...$("rows").children].find((each) => each.dataset.origin === wasHost);
      (row ? row.querySelector("a") : $("main")).focus();
    }
  }
  wasHost = here.host;
  follow();
}

// Messages.

function show(message) {
  if (message.closed) {
    connection("lost", "The gate is not open");
    return;
  }
  connection("live", "Live");
  now = message.now;
  sample(message.stats);
  showTotals(message);
  if (message.host) showHost(message.host, message.controls);
  else showOrigins(message.origins);
}

function sample(stats) {
  const totals = { visits: stats.visits, bytes_read: stats.bytes_read, refused: stats.refused + stats.turned_away };
  if (before) {
    const passed = Math.max(now - before.at, 0.001);
    const values = { waiting: stats.waiting, open_turns: stats.open_turns };
    for (const [name, total] of Object.entries(totals)) values[name] = Math.max(total - before.totals[name], 0) / passed;
    for (const name of Object.keys(samples)) samples[name] = [...samples[name].slice(-119), values[name]];
  }
  before = { totals, at: now };
}

function showTotals({ stats, answers, refusals, agent, store_up }) {
  put($("agent"), agent);
  const last = (name) => {
    // Of rates, the mean of the last five messages.
    const some = samples[name].slice(-5);
    return some.reduce((sum, each) => sum + each, 0) / some.length;
  };
  for (const name of Object.keys(NAMES)) line($(`${name}-line`), samples[name]);
  const rate = (value) => value > 0 && value < 10 ? value.toFixed(1) : count(value);
  put($("visits-rate"), `${rate(last("visits"))}/s`);
  put($("visits-total"), `${count(stats.visits)} in all, ${count(stats.robots_requests)} for robots.txt`);
  put($("bytes_read-rate"), `${size(last("bytes_read"))}/s`);
  put($("bytes_read-total"), `${size(stats.bytes_read)} in all`);
  put($("refused-rate"), `${rate(last("refused"))}/s`);
  put($("refused-total"), `${count(stats.refused)} by rules, ${count(stats.turned_away)} for other reasons`);
  put($("waiting-rate"), count(stats.waiting));
  put($("waiting-total"), `turns of ${count(stats.hosts_waiting)} ${stats.hosts_waiting === 1 ? "host" : "hosts"}`);
  put($("open_turns-rate"), count(stats.open_turns));
  put($("open_turns-total"), stats.open_turns === 1 ? "request" : "requests");
  put($("hosts-count"), count(stats.hosts));
  put($("origins-count"), count(stats.origins));
  const standing = (states) =>
    states.filter(([number]) => number).map(([number, what]) => `${count(number)} ${what}`).join(", ");
  put($("hosts-total"), standing([
    [stats.hosts_blocked, "asked for a pause"], [stats.hosts_spent, "beyond your budget"],
  ]) || "none asked for a pause");
  put($("origins-total"), standing([
    [stats.origins_unreachable, "unreachable"], [stats.origins_blocked, "blocked by you"],
    [stats.origins - stats.origins_known, "without robots.txt yet"],
  ]) || "none in trouble");
  const items = [
    ...Object.entries(answers).sort().map(([what, number]) => [what.replace("page", "pages").replace("robots", "robots.txt").replace("none", "no answer"), number]),
    ...Object.entries(refusals).sort().map(([what, number]) => [`refused: ${what.replaceAll("_", " ")}`, number]),
    ...(store_up ? [] : [["the store fails", ""]]),
  ];
  replace($("answers"), items.map(([what, number]) => {
    const item = make("li", `${what} `);
    item.append(make("b", number === "" ? "" : count(number)));
    return item;
  }));
}

function replace(list, items) {
  const text = items.map((item) => item.textContent).join("\n");
  if (list.dataset.text !== text) {
    const links = () => [...list.querySelectorAll("a")];
    const focused = links().indexOf(document.activeElement);
    list.dataset.text = text;
    list.replaceChildren(...items);
    if (focused >= 0) links()[focused]?.focus({ preventScroll: true });
  }
}

function showOrigins({ matches, page, pages, rows }) {
  const body = $("rows");
  const known = new Map([...body.children].map((row) => [row.dataset.origin, row]));
  const focused = body.contains(document.activeElement) ? document.activeElement : null;
  const wanted = rows.map((row) => {
    const element = known.get(row.origin) ?? newRow(row.origin);
    fill(element, row);
    return element;
  });
  if (wanted.length !== body.children.length || wanted.some((row, at) => row !== body.children[at])) {
    const at = focused && [...body.children].indexOf(focused.closest("tr"));
    body.replaceChildren(...wanted);
    if (focused) {
      // The focus stays at its host, or at its place if the host has left the page.
      const next = body.contains(focused) ? focused : wanted[Math.min(at, wanted.length - 1)]?.querySelector("a");
      (next ?? $("main")).focus({ preventScroll: true });
    }
  }
  const { search } = place();
  $("hosts").removeAttribute("aria-busy");
  $("hosts").hidden = !rows.length;
  $("empty").hidden = Boolean(rows.length);
  put($("empty"), search ? `No origin has “${search}” in its name.` : "No robots.txt is known yet.");
  const first = page * 50;
  put($("place"), rows.length ? `${count(first + 1)} to ${count(first + rows.length)} of ${count(matches)}` : "");
  enable($("previous"), page > 0, $("next"));
  enable($("next"), page + 1 < pages, $("previous"));
  $("previous").parentElement.hidden = pages === 1 && page === 0;
}

// The page of one host.

function clearHost(origin) {
  put($("host-title"), origin);
  $("known").hidden = true;
  put($("host-state"), "");
  put($("told"), "");
  put($("turned-away"), "");
  put($("robots-facts"), "");
  robotsOf = "";
  for (const id of ["facts", "rules", "last", "robots"]) { delete $(id).dataset.text; $(id).replaceChildren(); }
  $("host-title").focus();
}

function showHost(host, hasControls) {
  if (host.origin !== place().host) return;
  $("controls").hidden = !(hasControls && host.is_known);
  $("known").hidden = !host.is_known;
  if (!host.is_known) {
    $("host-state").className = "state";
    put($("host-state"), "not in the gate's memory");
    return;
  }
  const [kind, , text] = stateOf(host);
  $("host-state").className = `state ${kind}`;
  put($("host-state"), text);
  enable($("unblock"), host.blocked_by_operator_until_at !== null, $("block"));
  const facts = [
    ["Next due", coming(host.next_allowed_at)], ["Waiting", count(host.waiting)], ["Under way", count(host.open_turns)],
    ["Delay", span(host.delay)], ["Response", host.latency === null ? "not known" : span(host.latency)],
    ["Last visit", past(host.last_visit_at)], ["Visits", count(host.visits)], ["Read", size(host.bytes_read)],
    ["Refused by rules", count(host.refused)], ["Failures in a row", count(host.failing)],
    ["Rules", host.access === null ? "not known" : ACCESS[host.access]], ["Paced as", host.host],
  ];
  if (host.blocked_until_at !== null && host.asked_by === null) facts.push(["Pause it asked for", until(host.blocked_until_at)]);
  if (host.asked_by !== null) facts.push(["Slowed down", asked(host)]);
  if (host.learned_delay) facts.push(["Learned delay", span(host.learned_delay)]);
  const left = [
    host.budget_pages_left !== null && `${count(host.budget_pages_left)} pages`,
    host.budget_bytes_left !== null && size(host.budget_bytes_left),
  ].filter(Boolean);
  const renewed = host.budget_renewed_at === null ? "" : `; there anew ${coming(host.budget_renewed_at)}`;
  if (left.length) facts.push(["Left of your budget", left.join(", ") + renewed]);
  if (host.blocked_by_operator_until_at !== null) facts.push(["Your block", until(host.blocked_by_operator_until_at)]);
  replace($("facts"), facts.map(([name, value]) => {
    const fact = make("div");
    fact.append(make("dt", name), make("dd", value));
    return fact;
  }));
  replace($("rules"), host.rules.length ? host.rules.map(({ line: number, text: rule, count: times }) => {
    const item = make("li");
    const what = make("span");
    if (number === null) what.append(rule);
    else what.append(make("a", `line ${number}`, { href: "#", "data-line": number }), " ", make("code", rule));
    item.append(what, make("span", times === 1 ? "once" : `${count(times)} times`));
    return item;
  }) : [make("li", "None since this page's server listens.", { class: "zero" })]);
  replace($("last"), host.answers.map((answer) => {
    const row = make("tr", "", { role: "row" });
    const cell = (content, kind = "") => row.append(make("td", content, { role: "cell", class: kind }));
    cell(past(answer.at));
    cell(answer.status === null ? "none" : String(answer.status));
    const what = answer.url.startsWith(`${host.origin}/`) ? answer.url.slice(host.origin.length) : answer.url;
    cell(answer.cause ? `${what} (${answer.cause})` : what);
    cell(size(answer.bytes_read), "number");
    cell(span(answer.elapsed), "number");
    return row;
  }));
  $("last").parentElement.hidden = !host.answers.length;
  put($("turned-away"), host.turned_away ? `Last turn that was refused for another reason: ${host.turned_away}` : "");
  showRobots(host);
}

async function showRobots({ origin, robots, rules, fresh_until_at, stale }) {
  if (!robots) {
    put($("robots-facts"), "Not requested yet, or not obeyed.");
    $("robots-box").hidden = true;
    return;
  }
  const answer = robots.cause ?? (robots.status === null ? "no answer" : `HTTP status ${robots.status}`);
  const ends = fresh_until_at === null ? "" : `; due again ${coming(fresh_until_at)}`;
  const copy = stale ? "; the last good copy holds" : "";
  put($("robots-facts"), `${robots.url}: ${answer}, requested ${past(robots.checked_at)}${copy}${ends}`);
  const version = `${origin} ${robots.checked_at} ${robots.bytes}`;
  if (robotsOf !== version) {
    robotsOf = version;
    const response = await ask(`robots?${new URLSearchParams({ host: origin })}`).catch(() => null);
    if (robotsOf !== version) return;
    if (!response || !response.ok) { robotsOf = ""; return; }
    const { lines, left_out } = await response.json();
    $("robots").replaceChildren(...lines.map((text) => make("li", text, { tabindex: "-1" })));
    $("robots-more").hidden = !left_out;
    put($("robots-more"), `${count(left_out)} more lines are not shown.`);
  }
  $("robots-box").hidden = !$("robots").children.length;
  const refusing = new Set(rules.map((rule) => rule.line));
  [...$("robots").children].forEach((each, at) => each.classList.toggle("refused", refusing.has(at + 1)));
}

// The server.

function ask(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers, ...(token && { Authorization: `Bearer ${token}` }) };
  return fetch(path, { ...options, headers, cache: "no-store" });
}

function connection(kind, text) {
  $("connection").className = kind;
  put($("connection"), text);
}

function askToken() {
  $("token-form").hidden = false;
  $("totals").hidden = $("main").hidden = true;
  connection("lost", "Token needed");
  $("token").focus();
}

async function follow() {
  controller?.abort();
  if (document.hidden) return;
  const { signal } = (controller = new AbortController());
  const { host, order, search, page } = place();
  const query = new URLSearchParams(host ? { host } : { order, search, page: Math.min(page, 19) });
  while (!signal.aborted) {
    try {
      const response = await ask(`events?${query}`, { signal });
      if (response.status === 401) { askToken(); return; }
      $("banner").hidden = response.ok;
      if (!response.ok) { put($("banner"), await response.text()); connection("lost", "Refused"); }
      else await read(response.body, signal);
    } catch (error) {
      if (signal.aborted) return;
    }
    if (signal.aborted) return;
    if ($("banner").hidden) connection("lost", "No connection; trying again");
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

async function read(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done || signal.aborted) return;
    const messages = (rest + value).split("\n\n");
    rest = messages.pop();
    for (const message of messages) show(JSON.parse(message.slice("data: ".length)));
    if (isPaused && messages.length) {
      // What the reader goes to is shown once, and then stays as it is.
      connection("", "Paused");
      controller.abort();
      return;
    }
  }
}

async function change(what, more = {}) {
  const host = place().host;
  put($("told"), "…");
  const body = JSON.stringify({ host, ...more });
  try {
    const response = await ask(what, { method: "POST", body, headers: { "Content-Type": "application/json" } });
    put($("told"), await response.text());
  } catch (error) {
    put($("told"), "No connection: nothing has changed.");
  }
}

// Beginnings.

for (const [order, name] of Object.entries(ORDERS)) {
  const button = make("button", name, { type: "button", "data-order": order, "aria-pressed": "false" });
  button.addEventListener("click", () => go({ order }));
  $("orders").append(button);
}
for (const column of COLUMNS) {
  const head = make("th", column.head, { role: "columnheader", scope: "col", class: column.kind });
  if (column.order) head.dataset.order = column.order;
  $("heads").append(head);
}
let typing = 0;
$("search").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => go({ search: $("search").value.trim() }, true), 200);
});
$("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  go({ search: $("search").value.trim() }, true);
});
$("previous").addEventListener("click", () => go({ page: place().page - 1 }));
$("next").addEventListener("click", () => go({ page: place().page + 1 }));
$("skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
$("pause").addEventListener("click", () => {
  isPaused = !isPaused;
  $("pause").setAttribute("aria-pressed", String(isPaused));
  if (isPaused) {
    controller?.abort();
    connection("", "Paused");
  } else {
    follow();
  }
});
$("block").addEventListener("click", () => {
  const seconds = $("seconds").value;
  change("block", { seconds: seconds ? Number(seconds) : null });
});
$("unblock").addEventListener("click", () => change("unblock"));
$("refresh").addEventListener("click", () => change("refresh"));
$("rules").addEventListener("click", (event) => {
  const number = event.target.dataset.line;
  if (!number) return;
  event.preventDefault();
  const found = $("robots").children[number - 1];
  found?.scrollIntoView({ block: "nearest" });
  found?.focus({ preventScroll: true });
});
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, $("token").value.trim());
  $("token").value = "";
  $("token-form").hidden = true;
  $("totals").hidden = $("main").hidden = false;
  follow();
});
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  // It stays out of the history, and of the server's log.
  sessionStorage.setItem(TOKEN, given);
  history.replaceState(null, "", location.pathname);
}
document.addEventListener("visibilitychange", follow);
window.addEventListener("hashchange", arrive);
arrive();
