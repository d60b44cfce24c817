import type { FileResult, Reporter } from './reporter.ts';
import { jsonText } from './visible.ts';
import { masked } from './wording.ts';

/** One JSON document: `findings`, each on a line of its own, and the `files` with their counts. */
export function jsonReporter(): Reporter {
  const results: FileResult[] = [];
  let hasFindings = false;
  return {
    begin: () => '{"findings":[',
    finding(finding) {
      const separator = hasFindings ? ',' : '';
      hasFindings = true;
      return `${separator}\n${jsonText({ ...masked(finding), excerpt: undefined })}`;
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
