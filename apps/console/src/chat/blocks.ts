/** Beginning or end of a fenced block of code. */
const FENCE_PATTERN = /^ {0,3}(`{3,}|~{3,})/;

/**
 * Splits Markdown into blocks at blank lines, so that a growing text changes its last block only. Fenced code is one
 * block, and so are indented lines with what they continue.
 */
export function splitBlocks(markdown: string): string[] {
  const blocks: string[] = [];
  let lines: string[] = [];
  let fence: string | undefined;
  let isAfterBlank = false;
  for (const line of markdown.split('\n')) {
    const marker = FENCE_PATTERN.exec(line)?.[1];
    if (fence === undefined && isAfterBlank && /^\S/.test(line)) {
      blocks.push(lines.join('\n'));
      lines = [];
    }
    if (fence === undefined) fence = marker;
    else if (marker?.startsWith(fence) && line.trim() === marker) fence = undefined;
    lines.push(line);
    isAfterBlank = line.trim() === '' && lines.length > 1;
  }
  blocks.push(lines.join('\n'));
  return blocks;
}
