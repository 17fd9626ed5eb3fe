// Tokens as people read them, and what two hypotheses share.

// Which mark begins words in a document: byte-level BPE's or SentencePiece's, if either.
function findMark(known) {
  const tokens = [...known.regular, ...known.reverse].flatMap((each) => each.tokens ?? []);
  return ["\u0120", "\u2581"].find((mark) => tokens.some((token) => token.startsWith(mark))) ?? "";
}

// Byte-level BPE writes each byte as a letter: those that print as themselves, others from U+0100 on.
const BYTES = new Map();
for (let byte = 0, more = 256; byte < 256; byte += 1) {
  const prints = (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  BYTES.set(String.fromCodePoint(prints ? byte : more), byte);
  more += prints ? 0 : 1;
}

function decodeBytes(token) {
  const bytes = [...token].map((letter) => BYTES.get(letter));
  return bytes.includes(undefined) ? token : new TextDecoder().decode(Uint8Array.from(bytes));
}

// Pieces without marks, each with whether it goes on with what stands before it, as the text says.
function readTokens(tokens, mark, text = "") {
  const letters = clean(text).toLowerCase();
  let end = 0;
  return tokens.map((token, place) => {
    const isBegun = mark && token.startsWith(mark);
    let piece = isBegun ? token.slice(1) : token.replace(/^##(?=.)|(?<=.)@@$/gu, "");
    piece = clean(mark === "\u0120" ? decodeBytes(piece) : piece);
    const at = letters.indexOf(piece.toLowerCase(), end);
    const isMarked = mark ? !isBegun : /^##./u.test(token) || /.@@$/u.test(tokens[place - 1] ?? "");
    const goesOn = place > 0 && (isMarked || (end > 0 && at === end && !isBegun));
    if (at >= 0) end = at + piece.length;
    return { token, text: piece, goesOn };
  });
}

const tokensOf = (hypothesis) => hypothesis.tokens ?? clean(hypothesis.text).split(/\s+/u).filter(Boolean);
const readHypothesis = (hypothesis, mark) => readTokens(tokensOf(hypothesis), mark, hypothesis.text);
const joinPieces = (pieces) =>
  pieces.map(({ text, goesOn }, place) => (place && !goesOn ? ` ${text}` : text)).join("");

// Clipped matches of n-grams of 1 to `order` tokens, of as many as `length` tokens have, and for each token of
// either side the longest it is in.
function shareGrams(one, two, order, length) {
  const reach = [one.map(() => 0), two.map(() => 0)];
  const orders = [];
  for (let n = 1; n <= order; n += 1) {
    const [found, others] = [one, two].map((tokens) => listGrams(tokens, n));
    const shared = [];
    for (const [gram, starts] of found) {
      const count = Math.min(starts.length, others.get(gram)?.length ?? 0);
      if (!count) continue;
      shared.push({ start: starts[0], count });
      [starts, others.get(gram)].forEach((places, side) =>
        places.slice(0, count).forEach((start) => reach[side].fill(n, start, start + n)));
    }
    const matches = shared.reduce((sum, { count }) => sum + count, 0);
    orders.push({ n, shared, matches, total: Math.max(0, length - n + 1) });
  }
  return { orders, reach };
}

function listGrams(tokens, n) {
  const starts = new Map();
  for (let start = 0; start + n <= tokens.length; start += 1) {
    const gram = JSON.stringify(tokens.slice(start, start + n));
    starts.set(gram, [...(starts.get(gram) ?? []), start]);
  }
  return starts;
}
