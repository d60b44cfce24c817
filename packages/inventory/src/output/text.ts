import { styleText } from 'node:util';
import type { Excerpt, Finding } from '../finding.ts';
import type { Reporter } from './reporter.ts';
import { visible } from './visible.ts';
import { columnsOf } from './width.ts';
import { closingLine, where } from './wording.ts';

export type TextOptions = {
  /** Shows the line of each finding, for people at a terminal. */
  showsExcerpts: boolean;
  isColored: boolean;
};

type Style = Parameters<typeof styleText>[0];

/** One finding a line, in the form that editors and other tools recognise, and a closing line. */
export function textReporter({ showsExcerpts, isColored }: TextOptions): Reporter {
  const style = (format: Style, text: string) =>
    isColored ? styleText(format, text, { validateStream: false }) : text;

  function finding(found: Finding): string {
    const { file, line, column, severity, message, code, related = [], excerpt } = found;
    const at = style('bold', visible(`${file}:${line}:${column}:`));
    const kind = style(severity === 'error' ? 'red' : 'yellow', `${severity}:`);
    const tail = style('dim', `[${code}]`);
    const lines = [`${at} ${kind} ${visible(message)} ${tail}${visible(where(found))}`];
    for (const place of related) {
      lines.push(
        visible(`  ${place.file ?? file}:${place.line}:${place.column}: note: ${place.message}`),
      );
    }
    if (showsExcerpts && excerpt !== undefined && excerpt.text.trim() !== '') {
      lines.push(style('dim', frame(line, excerpt)));
    }
    return `${lines.join('\n')}\n`;
  }

  return {
    begin: () => '',
    finding,
    fileEnd: (result) => (result.reason === undefined ? `${visible(closingLine(result))}\n` : ''),
    end: () => '',
  };
}

/** The line with its number, and a mark under the column. */
function frame(line: number, { text, column }: Excerpt): string {
  const characters = Array.from(text.replaceAll('\t', ' '));
  const before = visible(characters.slice(0, column - 1).join(''));
  const after = visible(characters.slice(column - 1).join(''));
  const gutter = ` ${line} | `;
  const below = `${' '.repeat(gutter.length - 2)}| ${' '.repeat(columnsOf(before))}^`;
  return `${gutter}${before}${after}\n${below}`;
}
