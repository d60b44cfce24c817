import { isAbsolute, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { maskCredentials } from '../credentials.ts';
import { RULES } from '../finding.ts';
import type { Finding, FindingCode, Fix, Position } from '../finding.ts';
import { pageOf } from '../rule-ids.ts';
import type { Reporter } from './reporter.ts';
import { SarifLimits } from './sarif-limits.ts';
import { jsonText } from './visible.ts';
import { count, notShown, remembering } from './wording.ts';

const rules = Object.entries(RULES).map(([id, text]) => ({
  id,
  shortDescription: { text },
  ...(pageOf(id) !== null && {
    help: { text: `How to mend it: ${pageOf(id)} in the package @oselya/inventory` },
  }),
}));
const ruleIndexes = new Map(rules.map(({ id }, index) => [id, index]));

/**
 * One SARIF 2.1.0 log with one run (OASIS SARIF 2.1.0, §3.14 and §3.27). It has no more results than code
 * scanning of GitHub takes, and says how many were left out.
 */
export function sarifReporter(): Reporter {
  const notifications: object[] = [];
  const limits = new SarifLimits();
  const shownPointer = remembering(maskCredentials);
  let hasResults = false;
  return {
    begin() {
      const driver = JSON.stringify({ name: 'oselya inventory', rules });
      return `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[
{"tool":{"driver":${driver}},"columnKind":"unicodeCodePoints","results":[`;
    },
    finding(finding) {
      const result = `${hasResults ? ',' : ''}\n${jsonText(resultOf(finding, shownPointer(finding.pointer)))}`;
      if (!limits.take(result)) return '';
      hasResults = true;
      return result;
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
      if (limits.leftOut > 0) {
        const text = `${count(limits.leftOut, 'finding')} left out, since code scanning takes no more; --format json has all`;
        notifications.push({ level: 'warning', message: { text } });
      }
      const invocation = jsonText({
        executionSuccessful: exitCode < 2,
        exitCode,
        toolExecutionNotifications: notifications,
      });
      return `${hasResults ? '\n' : ''}],"invocations":[${invocation}]}]}\n`;
    },
  };
}

/** @param pointer That of the finding, masked. */
function resultOf(finding: Finding, pointer: string) {
  const { file, code, severity, message, related, line, column, fix } = finding;
  return {
    ruleId: code satisfies FindingCode,
    ruleIndex: ruleIndexes.get(code),
    level: severity,
    message: { text: message },
    locations: [
      {
        ...locationIn(file, { line, column }),
        ...(pointer !== '' && { logicalLocations: [{ fullyQualifiedName: pointer }] }),
      },
    ],
    ...(related && {
      relatedLocations: related.map((place) => {
        return { ...locationIn(place.file ?? file, place), message: { text: place.message } };
      }),
    }),
    ...(fix && { fixes: [fixOf(finding, fix)] }),
  };
}

/** What `lint --fix` would do (§3.55); a JSON text that is mended stands on one line. */
function fixOf({ file, line, column }: Position & { file: string }, { written, replacement }: Fix) {
  const endColumn = column + Array.from(written).length;
  const deletedRegion = { startLine: line, startColumn: column, endColumn };
  const replacements = [{ deletedRegion, insertedContent: { text: replacement } }];
  return { artifactChanges: [{ artifactLocation: { uri: uriOf(file) }, replacements }] };
}

function locationIn(file: string, { line, column }: Position) {
  const region = { startLine: line, startColumn: column };
  return { physicalLocation: { artifactLocation: { uri: uriOf(file) }, region } };
}

/** Relative to the working folder, as consumers resolve it; files outside of it are absolute. */
function uriOf(file: string): string {
  const path = relative(process.cwd(), resolve(file));
  if (path.startsWith('..') || isAbsolute(path)) return pathToFileURL(file).href;
  return path.split(sep).map(encodeURIComponent).join('/');
}
