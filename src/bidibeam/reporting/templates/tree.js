// A prefix tree from the left and a suffix tree from the right, which meet in the middle: leaves are hypotheses,
// and links between them are as strong as the pairs are similar.

const ROW = 26, GAP = 22, MIDDLE = 150, EDGE = 14, RANK = 24, SHOWN = 20, LONGEST = 34, LEAST = 340;
const FONT = "13px system-ui, sans-serif";
const SVG_PARTS = ["svg", "g", "path", "text", "circle", "title", "desc", "rect", "line"];

// An element; strings become text, so that nothing that a model wrote is read as HTML.
function make(name, attributes = {}, ...children) {
  const element = SVG_PARTS.includes(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter(Boolean));
  return element;
}

// `sequences` are pieces from the root on, with their place in the beam; runs without branching are one node.
function growTree(sequences) {
  const root = { pieces: [], children: new Map(), places: [] };
  for (const { place, pieces } of sequences) {
    let node = root;
    for (const piece of pieces) {
      const key = piece.token;
      if (!node.children.has(key)) node.children.set(key, { pieces: [piece], children: new Map(), places: [] });
      node = node.children.get(key);
    }
    node.places.push(place);
  }
  return foldRuns(root);
}

function foldRuns(node) {
  let children = [...node.children.values()];
  while (node.pieces.length && !node.places.length && children.length === 1) {
    const [child] = children;
    node.pieces.push(...child.pieces);
    node.places = child.places;
    children = [...child.children.values()];
  }
  const isLeaf = !children.length && node.places.length === 1;
  const ended = isLeaf ? [] : node.places.map((place) => ({ pieces: [], children: [], place, first: place }));
  const grown = [...children.map(foldRuns), ...ended].sort((a, b) => a.first - b.first);
  return isLeaf ? { pieces: node.pieces, children: [], place: node.places[0], first: node.places[0] }
    : { pieces: node.pieces, children: grown, first: grown[0]?.first ?? Infinity };
}

let canvas = null;
function measure(text) {
  canvas ??= document.createElement("canvas").getContext("2d");
  canvas.font = FONT;
  return canvas.measureText(text).width;
}

const shorten = (text) => ([...text].length > LONGEST ? `${[...text].slice(0, LONGEST - 1).join("")}\u2026` : text);

// Gives every node its text, a place along the tree (start, end) and a height; returns leaves and the extent.
function layTree(root, isReversed) {
  const leaves = [];
  const lay = (node, start) => {
    const text = joinPieces(isReversed ? [...node.pieces].reverse() : node.pieces).trim();
    Object.assign(node, { full: text, text: shorten(text), start });
    node.end = start + (text ? measure(node.text) + 6 : 0) + (node === root ? 0 : GAP);
    if (node.place !== undefined) {
      node.y = leaves.length * ROW + ROW / 2;
      leaves.push(node);
    } else {
      node.children.forEach((child) => lay(child, node.end));
      node.y = node.children.length ? (node.children[0].y + node.children.at(-1).y) / 2 : ROW / 2;
    }
  };
  lay(root, 0);
  return { root, leaves, extent: Math.max(0, ...leaves.map((leaf) => leaf.end)) };
}

// `at` turns a place along the tree into an x; links and leaves are in front.
function drawTree(tree, at, shift) {
  const parts = [];
  const draw = (node, parent) => {
    const y = node.y + shift;
    if (parent) {
      const [from, to] = [at(parent.end), at(node.start + GAP - 3)];
      const bend = (from + to) / 2;
      parts.push(make("path", { class: "edge", d: `M${from} ${parent.y + shift}C${bend} ${parent.y + shift} ${bend} ${y} ${to} ${y}` }));
    }
    if (node.text) {
      const x = (at(node.start + GAP) + at(node.end)) / 2;
      const isCut = node.text !== node.full;
      parts.push(make("text", { class: "piece", x, y: y + 4.5, "text-anchor": "middle" }, node.text, isCut && make("title", {}, node.full)));
    }
    if (node.place !== undefined) {
      parts.push(make("path", { class: "stem", d: `M${at(node.end)} ${y}H${at(tree.extent + 4)}` }));
    }
    node.children.forEach((child) => draw(child, node));
  };
  draw(tree.root, null);
  parts.push(make("circle", { class: "root", cx: at(0), cy: tree.root.y + shift, r: 4 }));
  return parts;
}

// The best of each beam, and all that a strategy chooses or that it agrees with.
function pickShown(known, winners) {
  const wanted = { regular: new Set(), reverse: new Set() };
  for (const { direction, place, partner } of winners.filter((each) => each.place >= 0)) {
    wanted[direction].add(place);
    if (partner !== null) wanted[other(direction)].add(partner);
  }
  const pick = (direction) => known[direction].map((_, place) => place)
    .filter((place) => place < SHOWN || wanted[direction].has(place));
  return { regular: pick("regular"), reverse: pick("reverse") };
}

function plantTree(known, marks, direction, places) {
  const isReversed = direction === "reverse";
  return layTree(growTree(places.map((place) => {
    const pieces = readHypothesis(known[direction][place], marks);
    return { place, pieces: isReversed ? pieces.reverse() : pieces };
  })), isReversed);
}

// Every shown hypothesis' closest, and the pairs that strategies choose by, the strongest last.
function pickLinks(matrix, shownPlaces, pairs) {
  const links = new Map();
  const add = (row, column) => links.set(`${row},${column}`, { row, column, value: matrix[row][column] });
  const { regular, reverse } = shownPlaces;
  if (!regular.length || !reverse.length || !matrix.length) return [];
  const best = (places, value) => places.reduce((a, b) => (value(b) > value(a) ? b : a));
  for (const row of regular) add(row, best(reverse, (column) => matrix[row][column]));
  for (const column of reverse) add(best(regular, (row) => matrix[row][column]), column);
  for (const [row, column] of pairs) add(row, column);
  return [...links.values()].filter((link) => link.value > 0).sort((a, b) => a.value - b.value);
}

function drawTrees({ known, marks, matrix, winners, pairs, own }) {
  const places = pickShown(known, winners);
  const left = plantTree(known, marks, "regular", places.regular);
  const right = plantTree(known, marks, "reverse", places.reverse);
  const width = Math.max(LEAST, left.extent + right.extent + MIDDLE + 2 * (EDGE + RANK));
  const rows = Math.max(left.leaves.length, right.leaves.length, 1);
  const [top, height] = [30, rows * ROW + 40];
  const isMirrored = /^\P{L}*[\p{sc=Arabic}\p{sc=Hebrew}]/u.test(known.regular[0]?.text ?? known.reverse[0]?.text ?? "");
  const mirror = (x) => (isMirrored ? width - x : x);
  const shift = (tree) => top + ((rows - tree.leaves.length) * ROW) / 2;
  const at = { regular: (x) => mirror(EDGE + x), reverse: (x) => mirror(width - EDGE - x) };
  const parts = [];
  const ends = { regular: new Map(), reverse: new Map() };
  for (const [direction, tree] of [["regular", left], ["reverse", right]]) {
    parts.push(make("g", { class: direction }, drawTree(tree, at[direction], shift(tree))));
    for (const leaf of tree.leaves) ends[direction].set(leaf.place, { x: tree.extent + RANK / 2 + 4, y: leaf.y + shift(tree) });
  }
  const picked = pickLinks(matrix, places, pairs);
  const [least, most] = [picked[0]?.value, picked.at(-1)?.value];
  const strength = ({ value }) => (most > least ? (value - least) / (most - least) : 1);
  const links = picked.map((link) => drawLink(link, strength(link), ends, at, own));
  links.sort((a, b) => a.classList.contains("own") - b.classList.contains("own"));
  const heads = [["regular", at.regular(0), "common beginnings"], ["reverse", at.reverse(0), "common ends"]]
    .map(([direction, x, text]) => make("text", { class: `head ${direction}`, x, y: 15, "text-anchor": (direction === "regular") !== isMirrored ? "start" : "end" }, text));
  const label = `${places.regular.length} regular hypotheses by their beginnings and ${places.reverse.length} reverse ones by their ends`;
  return make("svg", { class: "tree", width: Math.ceil(width), height, viewBox: `0 0 ${Math.ceil(width)} ${height}`, role: "img", "aria-label": `${label}; links join those that are alike. The same in words is below.` },
    heads, links, parts, drawRanks(ends, at, own));
}

function drawLink({ row, column, value }, strength, ends, at, own) {
  const [from, to] = [ends.regular.get(row), ends.reverse.get(column)];
  const [x, end] = [at.regular(from.x + 11), at.reverse(to.x + 11)];
  const isOwn = own && own[0] === row && own[1] === column;
  const bend = (x + end) / 2;
  return make("path", { class: `link${isOwn ? " own" : ""}`, "data-pair": `${row},${column}`, d: `M${x} ${from.y}C${bend} ${from.y} ${bend} ${to.y} ${end} ${to.y}`,
    "stroke-width": (isOwn ? 4 : 0.8 + 2.6 * strength ** 2).toFixed(2), "stroke-opacity": (isOwn ? 1 : 0.2 + 0.6 * strength ** 2).toFixed(2) },
  make("title", {}, `regular ${row + 1} and reverse ${column + 1}: ${round(value)}`));
}

function drawRanks(ends, at, own) {
  return Object.keys(ends).flatMap((direction, side) => [...ends[direction]].map(([place, { x, y }]) =>
    make("g", { class: `rank ${direction}${own && own[side] === place ? " own" : ""}`, "data-place": `${direction},${place}` },
      make("circle", { cx: at[direction](x), cy: y, r: 10.5 }),
      make("text", { x: at[direction](x), y: y + 4, "text-anchor": "middle" }, String(place + 1)))));
}
