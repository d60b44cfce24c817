import { maskCredentials, maskId } from '../credentials.ts';
import { visible } from './visible.ts';

/**
 * Text from an inventory as a cell of a table: no markup, no mention, no password, and not the cell's end. An
 * address in it may become a link, which leads where it says.
 */
export function cell(value: string): string {
  return escaped(maskCredentials(value));
}

/** The id of a record, in the same way. */
export function idCell(id: string): string {
  return escaped(maskId(id));
}

function escaped(text: string): string {
  return (
    visible(text)
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll(/[\\`*_{}[\]()#+!|~]/g, String.raw`\$&`)
      // A comment within it is what keeps a name from being notified.
      .replaceAll('@', '@<!-- -->')
  );
}
