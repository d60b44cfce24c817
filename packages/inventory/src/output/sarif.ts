import { isAbsolute, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { RULES } from '../finding.ts';
import type { Finding, FindingCode, Position } from '../finding.ts';
import type { Reporter } from './reporter.ts';

const rules = Object.entries(RULES).map(([id, text]) => ({ id, shortDescription: { text } }));
const ruleIndexes = new Map(rules.map(({ id }, index) => [id, index]));

/** One SARIF 2.1.0 log with one run (OASIS SARIF 2.1.0, §3.14 and §3.27). */
export function sarifReporter(): Reporter {
  const notifications: object[] = [];
  let hasResults = false;
  return {
    begin() {
      const driver = JSON.stringify({ name: 'oselya inventory', rules });
      return `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[
{"tool":{"driver":${driver}},"columnKind":"unicodeCodePoints","results":[`;
    },
    finding(finding) {
      const separator = hasResults ? ',' : '';
      hasResults = true;
      return `${separator}\n${JSON.stringify(resultOf(finding))}`;
    },
    fileEnd({ file, reason }) {
      if (reason !== undefined) {
        const locations = [{ physicalLocation: { artifactLocation: { uri: uriOf(file) } } }];
        notifications.push({ level: 'error', message: { text: reason }, locations });
      }
      return '';
    },
    end(exitCode) {
      const invocation = JSON.stringify({
        executionSuccessful: exitCode < 2,
        exitCode,
        toolExecutionNotifications: notifications,
      });
      return `${hasResults ? '\n' : ''}],"invocations":[${invocation}]}]}\n`;
    },
  };
}

function resultOf({ file, code, severity, message, pointer, related, line, column }: Finding) {
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
        return { ...locationIn(file, place), message: { text: place.message } };
      }),
    }),
  };
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
