import { isAbsolute, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { maskCredentials } from '../credentials.ts';
import { type Finding, pageOf, type Position, RULES } from '../finding.ts';
import { count, jsonText } from '../text.ts';
import { notShown, type Reporter } from './reporters.ts';

/** Code scanning of GitHub rejects files with more results. */
const MAX_RESULTS = 25_000;

const rules = Object.entries(RULES).map(([id, text]) => ({
  id,
  shortDescription: { text },
  ...(pageOf(id) !== null && {
    help: { text: `How to fix it: ${pageOf(id)} in the package @oselya/inventory` },
  }),
}));
const ruleIndexes = new Map(rules.map(({ id }, index) => [id, index]));

/**
 * Formats one SARIF 2.1.0 log with one run (OASIS SARIF 2.1.0, §3.14 and §3.27), with no more results than code
 * scanning of GitHub accepts.
 */
export function sarifReporter(): Reporter {
  const notifications: object[] = [];
  let results = 0;
  return {
    begin() {
      const driver = JSON.stringify({ name: 'oselya inventory', rules });
      return `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[
{"tool":{"driver":${driver}},"columnKind":"unicodeCodePoints","results":[`;
    },
    finding(finding) {
      results += 1;
      if (results > MAX_RESULTS) return '';
      return `${results === 1 ? '' : ','}\n${jsonText(resultOf(finding))}`;
    },
    fileEnd(result) {
      const { file, reason } = result;
      const locations = [{ physicalLocation: { artifactLocation: { uri: uriOf(file) } } }];
      const notify = (level: string, text: string) =>
        void notifications.push({ level, message: { text }, locations });
      if (reason !== undefined) notify('error', reason);
      for (const text of notShown(result)) notify('note', text);
      return '';
    },
    end(exitCode) {
      if (results > MAX_RESULTS) {
        const text = `${count(results - MAX_RESULTS, 'finding')} omitted, as code scanning accepts no more; --format json has all`;
        notifications.push({ level: 'warning', message: { text } });
      }
      const invocation = jsonText({
        executionSuccessful: exitCode < 2,
        exitCode,
        toolExecutionNotifications: notifications,
      });
      return `${results === 0 ? '' : '\n'}],"invocations":[${invocation}]}]}\n`;
    },
  };
}

function resultOf(finding: Finding) {
  const { file, code, severity, message, related, line, column, fix } = finding;
  const pointer = maskCredentials(finding.pointer);
  const logicalLocations = pointer !== '' && {
    logicalLocations: [{ fullyQualifiedName: pointer }],
  };
  return {
    ruleId: code,
    ruleIndex: ruleIndexes.get(code),
    level: severity,
    message: { text: message },
    locations: [{ ...locationIn(file, { line, column }), ...logicalLocations }],
    ...(related && {
      relatedLocations: related.map((place) => {
        return { ...locationIn(place.file ?? file, place), message: { text: place.message } };
      }),
    }),
    ...(fix && { fixes: [fixOf(finding, fix)] }),
  };
}

/** Describes what `lint --fix` would do (§3.55); the text that it replaces is on one line. */
function fixOf(
  { file, line, column }: Finding,
  { written, replacement }: NonNullable<Finding['fix']>,
) {
  const endColumn = column + Array.from(written).length;
  const deletedRegion = { startLine: line, startColumn: column, endColumn };
  const replacements = [{ deletedRegion, insertedContent: { text: replacement } }];
  return { artifactChanges: [{ artifactLocation: { uri: uriOf(file) }, replacements }] };
}

function locationIn(file: string, { line, column }: Position) {
  const region = { startLine: line, startColumn: column };
  return { physicalLocation: { artifactLocation: { uri: uriOf(file) }, region } };
}

/** Returns a URI relative to the working folder; an absolute one for files outside. */
function uriOf(file: string): string {
  const path = relative(process.cwd(), resolve(file));
  if (path.startsWith('..') || isAbsolute(path)) return pathToFileURL(file).href;
  return path.split(sep).map(encodeURIComponent).join('/');
}
