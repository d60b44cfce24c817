const END_OF_REASONING = '</think>';
const FENCED = /^```(?:json)?[^\S\n]*\n([\s\S]*?)\n?[^\S\n]*```$/i;

/**
 * Takes the JSON value out of a model's answer. Beside bare JSON, two forms are accepted because
 * Ollama and llama.cpp really give them: reasoning that ends with `</think>` (templates of some
 * models leave out its beginning), and one Markdown fence around everything. Nothing is searched
 * for in prose and nothing is mended.
 *
 * @throws SyntaxError when what remains is not one JSON value.
 */
export function jsonAnswer(text: string): unknown {
  const answer = withoutReasoning(text.trim());
  return JSON.parse(FENCED.exec(answer)?.[1] ?? answer);
}

function withoutReasoning(text: string): string {
  // When the answer begins at once, only a string inside it can hold the mark.
  if (/^(?:[{[]|```)/.test(text)) return text;
  const end = text.indexOf(END_OF_REASONING);
  return end === -1 ? text : text.slice(end + END_OF_REASONING.length).trim();
}
