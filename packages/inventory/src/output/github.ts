import type { Reporter } from './reporter.ts';
import { visible } from './visible.ts';
import { closingLine, where } from './wording.ts';

/** Workflow commands of GitHub Actions, which become annotations, and a closing line a file. */
export function githubReporter(): Reporter {
  return {
    begin: () => '',
    finding(found) {
      const { file, line, column, code, severity, message } = found;
      const at = `file=${property(file)},line=${line},col=${column},title=${property(code)}`;
      return `::${severity} ${at}::${data(message + where(found))}\n`;
    },
    fileEnd(result) {
      if (result.reason === undefined) return `${plain(`checked ${closingLine(result)}`)}\n`;
      return `::error file=${property(result.file)},title=unreadable::${data(result.reason)}\n`;
    },
    end: () => '',
  };
}

/** A line that is no command, whatever a file is called: neither in the runner's form nor in its old one, ##[name]. */
function plain(text: string): string {
  return visible(text).replaceAll('##[', String.raw`\u0023#[`);
}

/** A line break would end the command, so it goes as an escape that the runner undoes. */
function data(text: string): string {
  return visible(text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A'));
}

/** Properties stand between commas and colons, so these are escaped too. */
function property(text: string): string {
  return data(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}
