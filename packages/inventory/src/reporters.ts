import { isAbsolute, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { styleText } from 'node:util';
import { maskCredentials, maskFinding } from './credentials.ts';
import { type Excerpt, type Finding, getRulePage, type Position, RULES } from './finding.ts';
import { escapeInvisible, formatCount, formatJson, quoteId, shorten } from './text.ts';

export type FileResult = {
  file: string;
  status: 'valid' | 'invalid' | 'unreadable';
  records?: number;
  errors: number;
  warnings: number;
  hidden?: number;
  silenced?: number;
  isComplete: boolean;
  reason?: string;
};

/** Findings formatter. Callers write the returned strings in call order. */
export type Reporter = {
  formatStart(): string;
  formatFinding(finding: Finding): string;
  formatFileEnd(result: FileResult): string;
  formatEnd(exitStatus: number): string;
};

type TerminalOptions = {
  showsExcerpts: boolean;
  isColored: boolean;
};

function formatRecordLocation({ recordId, pointer }: Finding): string {
  const parts = recordId === null ? [] : [`record ${quoteId(recordId)}`];
  // Shortens each segment separately to keep the depth of a pointer visible.
  const segments = pointer.split('/').map((name) => shorten(name));
  if (pointer !== '') parts.push(segments.join('/'));
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}

function describeHiddenFindings({ hidden = 0, silenced = 0 }: FileResult): string[] {
  return [
    ...(hidden === 0 ? [] : [`${formatCount(hidden, 'known finding')} hidden`]),
    ...(silenced === 0 ? [] : [`${formatCount(silenced, 'finding')} silenced`]),
  ];
}

function formatClosingLine(result: FileResult): string {
  const { file, status, records = 0, errors, warnings, isComplete } = result;
  if (status === 'unreadable') return `${file}: unreadable`;
  const warningNote = warnings === 0 ? '' : `, ${formatCount(warnings, 'warning')}`;
  const recordCount = formatCount(records, 'record');
  const hiddenNote = ['', ...describeHiddenFindings(result)].join(', ');
  if (status === 'valid') {
    const verdict = result.hidden === undefined ? 'valid' : 'no new errors';
    return `${file}: ${recordCount}, ${verdict}${warningNote}${hiddenNote}`;
  }
  const scope = isComplete ? ' in ' : '; stopped after ';
  return `${file}: ${formatCount(errors, 'error')}${warningNote}${scope}${recordCount}${hiddenNote}`;
}

/** Creates a reporter of one finding per line, in a format that editors recognize, and a summary line per file. */
function createTextReporter({ showsExcerpts, isColored }: TerminalOptions): Reporter {
  const style = (format: Parameters<typeof styleText>[0], text: string) =>
    isColored ? styleText(format, text, { validateStream: false }) : text;
  return {
    formatStart: () => '',
    formatFinding(finding) {
      const { file, line, column, severity, message, code, related = [], excerpt } = finding;
      const location = style('bold', escapeInvisible(`${file}:${line}:${column}:`));
      const severityLabel = style(severity === 'error' ? 'red' : 'yellow', `${severity}:`);
      const codeLabel = style('dim', `[${code}]`);
      const lines = [
        `${location} ${severityLabel} ${escapeInvisible(message)} ${codeLabel}${escapeInvisible(formatRecordLocation(finding))}`,
      ];
      for (const relatedLocation of related) {
        const label = `${relatedLocation.file ?? file}:${relatedLocation.line}:${relatedLocation.column}`;
        lines.push(escapeInvisible(`  ${label}: note: ${relatedLocation.message}`));
      }
      if (showsExcerpts && excerpt !== undefined && excerpt.text.trim() !== '') {
        lines.push(style('dim', formatExcerpt(line, excerpt)));
      }
      return `${lines.join('\n')}\n`;
    },
    formatFileEnd: (result) =>
      result.reason === undefined ? `${escapeInvisible(formatClosingLine(result))}\n` : '',
    formatEnd: () => '',
  };
}

function formatExcerpt(line: number, { text, column }: Excerpt): string {
  const characters = Array.from(text.replaceAll('\t', ' '));
  const textBefore = escapeInvisible(characters.slice(0, column - 1).join(''));
  const textAfter = escapeInvisible(characters.slice(column - 1).join(''));
  const gutter = ` ${line} | `;
  const margin = ' '.repeat(gutter.length - 2);
  return `${gutter}${textBefore}${textAfter}\n${margin}| ${' '.repeat(countColumns(textBefore))}^`;
}

/** Characters that take two columns: emoji, and full-width East Asian characters (UAX #11). */
const WIDE_CHARACTER_PATTERN =
  /^(?![\uff61-\uffdc])(?:\p{Emoji_Presentation}|\p{Script=Han}|\p{Script=Hiragana}|\p{Script=Katakana}|\p{Script=Hangul}|[\u3000-\u303e\uff01-\uff60\uffe0-\uffe6])|\ufe0f/u;

function countColumns(text: string): number {
  const segments = Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
  return segments.reduce((sum, segment) => sum + (WIDE_CHARACTER_PATTERN.test(segment) ? 2 : 1), 0);
}

function createJsonReporter(): Reporter {
  const results: FileResult[] = [];
  let separator = '';
  return {
    formatStart: () => '{"findings":[',
    formatFinding({ excerpt: _excerpt, ...finding }) {
      const text = `${separator}\n${formatJson(maskFinding(finding))}`;
      separator = ',';
      return text;
    },
    formatFileEnd(result) {
      results.push(result);
      return '';
    },
    formatEnd() {
      const files = results.map((result) => `\n${formatJson(result)}`);
      return `${separator === '' ? '' : '\n'}],"files":[${files.join(',')}\n]}\n`;
    },
  };
}

function createGithubReporter(): Reporter {
  return {
    formatStart: () => '',
    formatFinding(finding) {
      const { file, line, column, code, severity, message } = finding;
      const properties = `file=${escapeProperty(file)},line=${line},col=${column},title=${escapeProperty(code)}`;
      return `::${severity} ${properties}::${escapeData(message + formatRecordLocation(finding))}\n`;
    },
    formatFileEnd(result) {
      const { file, reason } = result;
      if (reason !== undefined) {
        return `::error file=${escapeProperty(file)},title=unreadable::${escapeData(reason)}\n`;
      }
      // The runner also accepts the old command syntax ##[name], so that is escaped too.
      const line = escapeInvisible(`checked ${formatClosingLine(result)}`);
      return `${line.replaceAll('##[', String.raw`\u0023#[`)}\n`;
    },
    formatEnd: () => '',
  };
}

// Line breaks end a command, and colons and commas end a property, so all of them are escaped.
function escapeData(text: string): string {
  return escapeInvisible(
    text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A'),
  );
}

function escapeProperty(text: string): string {
  return escapeData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}

/** Maximum number of results that GitHub code scanning accepts. */
const MAX_RESULTS = 25_000;

const rules = Object.entries(RULES).map(([id, text]) => {
  const page = getRulePage(id);
  const help = `How to fix it: ${page} in the package @oselya/inventory`;
  return { id, shortDescription: { text }, ...(page !== null && { help: { text: help } }) };
});
const ruleIndexes = new Map(rules.map(({ id }, index) => [id, index]));

/** Creates a reporter of one SARIF log with one run (OASIS SARIF 2.1.0, §3.14 and §3.27). */
function createSarifReporter(): Reporter {
  const notifications: object[] = [];
  let resultCount = 0;
  return {
    formatStart() {
      const driver = JSON.stringify({ name: 'oselya inventory', rules });
      return `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[
{"tool":{"driver":${driver}},"columnKind":"unicodeCodePoints","results":[`;
    },
    formatFinding(finding) {
      resultCount += 1;
      if (resultCount > MAX_RESULTS) return '';
      return `${resultCount === 1 ? '' : ','}\n${formatJson(toSarifResult(finding))}`;
    },
    formatFileEnd(result) {
      const { file, reason } = result;
      const locations = [{ physicalLocation: { artifactLocation: { uri: toUri(file) } } }];
      const addNotification = (level: string, text: string) =>
        void notifications.push({ level, message: { text }, locations });
      if (reason !== undefined) addNotification('error', reason);
      for (const text of describeHiddenFindings(result)) addNotification('note', text);
      return '';
    },
    formatEnd(exitCode) {
      if (resultCount > MAX_RESULTS) {
        const text = `${formatCount(resultCount - MAX_RESULTS, 'finding')} omitted, as code scanning accepts no more; --format json has all`;
        notifications.push({ level: 'warning', message: { text } });
      }
      const invocation = formatJson({
        executionSuccessful: exitCode < 2,
        exitCode,
        toolExecutionNotifications: notifications,
      });
      return `${resultCount === 0 ? '' : '\n'}],"invocations":[${invocation}]}]}\n`;
    },
  };
}

function toSarifResult(finding: Finding) {
  const { file, code, severity, message, related, line, column, fix } = finding;
  const pointer = maskCredentials(finding.pointer);
  const logicalLocations = [{ fullyQualifiedName: pointer }];
  const location = toSarifLocation(file, { line, column });
  return {
    ruleId: code,
    ruleIndex: ruleIndexes.get(code),
    level: severity,
    message: { text: message },
    locations: [{ ...location, ...(pointer !== '' && { logicalLocations }) }],
    ...(related && {
      relatedLocations: related.map((relatedLocation) => {
        return {
          ...toSarifLocation(relatedLocation.file ?? file, relatedLocation),
          message: { text: relatedLocation.message },
        };
      }),
    }),
    ...(fix && { fixes: [toSarifFix(finding, fix)] }),
  };
}

/** Describes the replacement of `lint --fix` (§3.55). The replaced text is on one line. */
function toSarifFix(
  { file, line, column }: Finding,
  { written, replacement }: NonNullable<Finding['fix']>,
) {
  const endColumn = column + Array.from(written).length;
  const deletedRegion = { startLine: line, startColumn: column, endColumn };
  const replacements = [{ deletedRegion, insertedContent: { text: replacement } }];
  return { artifactChanges: [{ artifactLocation: { uri: toUri(file) }, replacements }] };
}

function toSarifLocation(file: string, { line, column }: Position) {
  const region = { startLine: line, startColumn: column };
  return { physicalLocation: { artifactLocation: { uri: toUri(file) }, region } };
}

/** Returns a URI relative to the working folder. The URI is absolute for files outside the folder. */
function toUri(file: string): string {
  const path = relative(process.cwd(), resolve(file));
  if (path.startsWith('..') || isAbsolute(path)) return pathToFileURL(file).href;
  return path.split(sep).map(encodeURIComponent).join('/');
}

export const REPORTERS: Record<
  'text' | 'json' | 'sarif' | 'github',
  (options: TerminalOptions) => Reporter
> = {
  text: createTextReporter,
  json: createJsonReporter,
  sarif: createSarifReporter,
  github: createGithubReporter,
};
