// A prefix tree from the left and a suffix tree from the right, which meet in the middle: leaves are hypotheses,
// and links between them are as strong as the pairs are similar.

const ROW = 26, GAP = 22, TOP = 30, EDGE = 14, MIDDLE = 150, LEAST = 340; // pixels
const RADIUS = 10.5, LEAF = 28; // of a rank in its circle, and from the end of a tree to the middle
const SHOWN = 20; // the best of each beam that are drawn, besides those that are chosen
const LONGEST = 34; // letters of a node
const RIGHT_TO_LEFT = /^\P{L}*[\p{sc=Arabic}\p{sc=Hebrew}]/u;

function drawTrees({ known, mark, places, links, own, ownPair }) {
  const trees = DIRECTIONS.map((direction) => plantTree(known, mark, direction, places[direction]));
  const width = Math.ceil(Math.max(LEAST, trees[0].extent + trees[1].extent + MIDDLE + 2 * (EDGE + LEAF)));
  const rows = Math.max(...trees.map((tree) => tree.leaves.length));
  const height = TOP + rows * ROW + 10;
  const isMirrored = RIGHT_TO_LEFT.test((known.regular[0] ?? known.reverse[0]).text);
  trees.forEach((tree, side) => {
    const isFromLeft = (side === 0) !== isMirrored;
    tree.at = (x) => (isFromLeft ? EDGE + x : width - EDGE - x);
    tree.anchor = isFromLeft ? "start" : "end";
    tree.top = TOP + ((rows - tree.leaves.length) * ROW) / 2;
  });
  return make("svg.tree", {
    width, height, viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": `${places.regular.length} regular hypotheses by their beginnings, ${places.reverse.length} `
      + "reverse ones by their ends; links join those that are alike. The same in words is below.",
  }, drawLinks(links, trees, ownPair), trees.map((tree, side) => drawTree(tree, DIRECTIONS[side], own)));
}

// The best of each beam, and all that a strategy chooses or that it agrees with.
function pickShown(known, winners) {
  const wanted = { regular: new Set(), reverse: new Set() };
  for (const { direction, place, partner } of winners.filter((each) => each.place >= 0)) {
    wanted[direction].add(place);
    if (partner !== null) wanted[other(direction)].add(partner);
  }
  const pick = (direction) => [...known[direction].keys()]
    .filter((place) => place < SHOWN || wanted[direction].has(place));
  return { regular: pick("regular"), reverse: pick("reverse") };
}

// Every shown hypothesis' closest, and the pairs that strategies choose by, the weakest first.
function pickLinks(matrix, { regular, reverse }, pairs) {
  if (!regular.length || !reverse.length) return [];
  const best = (places, value) => places.reduce((a, b) => (value(b) > value(a) ? b : a));
  const picked = [
    ...regular.map((i) => [i, best(reverse, (j) => matrix[i][j])]),
    ...reverse.map((j) => [best(regular, (i) => matrix[i][j]), j]),
    ...pairs,
  ];
  const links = new Map(picked.map(([i, j]) => [`${i},${j}`, { i, j, value: matrix[i][j] }]));
  return [...links.values()].filter(({ value }) => value > 0).sort((a, b) => a.value - b.value);
}

function plantTree(known, mark, direction, places) {
  const isReversed = direction === "reverse";
  const sequences = places.map((place) => {
    const pieces = readHypothesis(known[direction][place], mark);
    return { place, pieces: isReversed ? pieces.reverse() : pieces };
  });
  return layTree(growTree(sequences), isReversed);
}

// Nodes of what sequences, best first, share from a depth on; a run without branching is one node.
function growTree(sequences, depth = 0) {
  if (sequences.length < 2) {
    const [{ place, pieces } = { pieces: [] }] = sequences;
    return { run: pieces.slice(depth), children: [], place };
  }
  const [{ pieces }] = sequences;
  let end = depth;
  while (sequences.every((each) => pieces[end] && each.pieces[end]?.token === pieces[end].token)) end += 1;
  const branches = new Map();
  for (const each of sequences) {
    const key = each.pieces[end]?.token ?? each; // what ends here is a branch of its own
    branches.set(key, [...(branches.get(key) ?? []), each]);
  }
  const children = [...branches.values()].map((branch) => growTree(branch, end));
  return { run: pieces.slice(depth, end), children };
}

// Gives every node its text, where it starts and ends along the tree, and its height.
function layTree(root, isReversed) {
  const leaves = [];
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "13px system-ui, sans-serif";
  const lay = (node, start) => {
    node.full = joinPieces(isReversed ? [...node.run].reverse() : node.run).trim();
    const letters = [...node.full];
    node.text = letters.length > LONGEST ? `${letters.slice(0, LONGEST - 1).join("")}\u2026` : node.full;
    node.start = start;
    node.end = start + (node.text || node.place !== undefined ? GAP + pen.measureText(node.text).width + 6 : 0);
    if (node.place !== undefined) node.y = leaves.push(node) * ROW - ROW / 2;
    node.children.forEach((child) => lay(child, node.end));
    if (node.children.length) node.y = (node.children[0].y + node.children.at(-1).y) / 2;
  };
  lay(root, 0);
  return { root, leaves, extent: Math.max(0, ...leaves.map((leaf) => leaf.end)) };
}

function drawTree({ root, leaves, extent, at, anchor, top }, direction, own) {
  if (!leaves.length) return [];
  const draw = (node, from) => {
    const y = top + node.y;
    const x = (at(node.start + GAP) + at(node.end)) / 2;
    const whole = node.text !== node.full && make("title", node.full);
    return [
      node.end > node.start && make("path.edge", { d: curve(at(node.start), from, at(node.start + GAP - 3), y) }),
      node.text && make("text.piece", { x, y: y + 4.5, "text-anchor": "middle" }, node.text, whole),
      ...node.children.flatMap((child) => draw(child, y)),
    ];
  };
  const rank = ({ place, end, y }) => {
    const x = at(extent + LEAF / 2);
    const isOwn = own?.direction === direction && own.place === place;
    return make(`g.rank.${direction}${isOwn ? ".own" : ""}`, { "data-place": `${direction},${place}` },
      make("path.stem", { d: `M${at(end)} ${top + y}H${at(extent + LEAF / 2 - RADIUS)}` }),
      make("circle", { cx: x, cy: top + y, r: RADIUS }),
      make("text", { x, y: top + y + 4, "text-anchor": "middle" }, String(place + 1)));
  };
  const told = direction === "regular" ? "common beginnings" : "common ends";
  return make(`g.${direction}`, make("text.head", { x: at(0), y: 15, "text-anchor": anchor }, told),
    draw(root, top + root.y), make("circle.root", { cx: at(0), cy: top + root.y, r: 4 }), leaves.map(rank));
}

const curve = (x, y, end, to) => `M${x} ${y}C${(x + end) / 2} ${y} ${(x + end) / 2} ${to} ${end} ${to}`;

// Links in the order of their strength, with that of the reply in front.
function drawLinks(links, trees, own) {
  const [least, most] = [links[0]?.value, links.at(-1)?.value];
  const ends = trees.map((tree) => new Map(tree.leaves.map(({ place, y }) =>
    [place, [tree.at(tree.extent + LEAF / 2 + RADIUS), tree.top + y]])));
  const drawn = links.map(({ i, j, value }) => {
    const strength = most > least ? ((value - least) / (most - least)) ** 2 : 1;
    const isOwn = own?.[0] === i && own?.[1] === j;
    return make(`path.link${isOwn ? ".own" : ""}`, {
      "data-pair": `${i},${j}`,
      d: curve(...ends[0].get(i), ...ends[1].get(j)),
      "stroke-width": isOwn ? 4 : round(0.8 + 2.6 * strength),
      "stroke-opacity": isOwn ? 1 : round(0.15 + 0.65 * strength),
    }, make("title", `regular ${i + 1} and reverse ${j + 1}: ${round(value)}`));
  });
  return drawn.sort((a, b) => a.classList.contains("own") - b.classList.contains("own"));
}
