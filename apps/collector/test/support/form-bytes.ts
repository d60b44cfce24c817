import { payloadOf } from './payload.ts';

export const BOUNDARY = 'oselya-boundary';

/** The type of what `formBytes` makes. */
export const FORM_TYPE = `multipart/form-data; boundary=${BOUNDARY}`;

/** What is between two boundaries, whether or not it is well-formed. */
export type Part = { headers: string; content: Buffer | string };

export const part = (name: string, content: Buffer | string, more = ''): Part => ({
  headers: `Content-Disposition: form-data; name="${name}"${more}`,
  content,
});

export const image = (name: string, content: Buffer | string): Part =>
  part('images', content, `; filename="${name}"`);

export const metadata = (...facts: Parameters<typeof payloadOf>): Part =>
  part('metadata', JSON.stringify(payloadOf(...facts)));

/** A form as it is on the way; without its end it is one of which more is to come. */
export function formBytes(parts: readonly Part[], { end = `--${BOUNDARY}--\r\n` } = {}): Buffer {
  const pieces = parts.flatMap(({ headers, content }) => [
    Buffer.from(`--${BOUNDARY}\r\n${headers}\r\n\r\n`),
    Buffer.from(content),
    Buffer.from('\r\n'),
  ]);
  return Buffer.concat([...pieces, Buffer.from(end)]);
}
