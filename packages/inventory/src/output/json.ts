import { maskCredentials, maskId } from '../credentials.ts';
import type { FileResult, Reporter } from './reporter.ts';
import { jsonText } from './visible.ts';
import { remembering } from './wording.ts';

/** One JSON document: `findings`, each on a line of its own, and the `files` with their counts. */
export function jsonReporter(): Reporter {
  const results: FileResult[] = [];
  const shownId = remembering(maskId);
  const shownPointer = remembering(maskCredentials);
  let hasFindings = false;
  return {
    begin: () => '{"findings":[',
    finding(finding) {
      const separator = hasFindings ? ',' : '';
      hasFindings = true;
      const recordId = finding.recordId === null ? null : shownId(finding.recordId);
      const shown = { ...finding, recordId, pointer: shownPointer(finding.pointer) };
      return `${separator}\n${jsonText({ ...shown, excerpt: undefined })}`;
    },
    fileEnd(result) {
      results.push(result);
      return '';
    },
    end() {
      const files = results.map((result) => `\n${jsonText(result)}`);
      return `${hasFindings ? '\n' : ''}],"files":[${files.join(',')}\n]}\n`;
    },
  };
}
