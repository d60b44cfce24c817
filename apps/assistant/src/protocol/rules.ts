import { MAX_ID_LENGTH } from '../sockets/frames.ts';
import { closings } from '../sockets/closings.ts';
import { socketLimits } from '../sockets/limits.ts';

const maxMessageKib = socketLimits.maxMessageBytes / 1024;

/** Why the server closes a socket, by code. What the client does then is in docs/protocol.md. */
export const closeCodes: readonly { code: number; reason: string }[] = [
  ...Object.values(closings),
  // Of the library.
  { code: 1009, reason: `A message is larger than ${maxMessageKib} KiB` },
];

/** What holds of the whole socket, as Markdown. Contract 3, WebSocket. */
export const rules = `\
Frames are JSON texts of at most ${maxMessageKib} KiB from the client, each an object with a \`type\`. Only pages of the \
same origin and clients that are no browser may connect. The session cookie of the handshake signs in; without one \
only \`ping\` is answered.

- A client's message may carry an \`id\` of at most ${MAX_ID_LENGTH} characters or a whole number, and every answer to \
it repeats that. Members that are not described are errors; those that may be left out may be null.
- Messages of one socket are handled one after the other and answered in their order. Who may send one is held against \
the user for each.
- A client ignores types and members that it does not know: later versions add some.
- Events of a turn have their place: \`seq\` counts from 1 within \`turn_id\`, and without a gap but for texts that are joined. \
They come to every socket of the owner's that has the session open; to one that opens it late, of an answer that is being written, and of an ended one to who says how far they were (\`turn_id\`, \`after\`).
- \`message.completed\` or the event \`error\` ends an answer whatever its number is, and may be all that comes of it: where the process has gone that wrote it, numbers follow what had been stored. What is no longer kept of events stands in the messages.

Close codes:

| code | reason |
| ---- | ------ |
${closeCodes.map(({ code, reason }) => `| \`${code}\` | ${reason} |`).join('\n')}
`;
