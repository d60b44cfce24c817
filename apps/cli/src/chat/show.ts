import { clearLine, cursorTo, type Interface } from 'node:readline';
import { type Writable } from 'node:stream';
import {
  type StreamedAnswer,
  type MemoryChange,
  type Message,
  type ToolCallInfo,
  type AnswerEvent,
} from '@oselya/chat-client';
import { type Output } from '../command.ts';
import { oneLine, printableJson, printableText } from '../terminal.ts';

/** Output of an answer. */
export type Screen = {
  /** Writes a part of the answer. */
  text: (text: string) => void;
  /** Writes a line about a step or a failure. */
  note: (line: string) => void;
};

/** Event of a finished tool call. */
export type FinishedStep = Extract<AnswerEvent, { type: 'tool.finished' }>;

/** Outcome of an answer. */
export type AnswerOutcome = 'completed' | 'cancelled' | 'cut' | 'failed';

/**
 * Streams an answer to the screen: its printable text, and a line for each tool call.
 * @param onChanged Called with each step that changed the memory.
 * @throws ChatError if the connection is lost before the answer ends.
 */
export async function showAnswer(
  answer: StreamedAnswer,
  screen: Screen,
  onChanged: (step: FinishedStep) => void = () => undefined,
): Promise<AnswerOutcome> {
  let shown = '';
  /** First half of a surrogate pair. */
  let half = '';

  function write(text: string): void {
    shown += text;
    const whole = half + text;
    half = /[\uD800-\uDBFF]$/.exec(whole)?.[0] ?? '';
    const ready = printableText(whole.slice(0, whole.length - half.length));
    if (ready !== '') screen.text(ready);
  }

  function finish(stored: Message | undefined): void {
    const content = stored?.content ?? '';
    // The stored message contains text that was lost with the connection.
    if (content.startsWith(shown)) write(content.slice(shown.length));
    else if (!shown.startsWith(content)) write(`\n\n${content}`);
    if (shown !== '') screen.text('\n');
  }

  for await (const event of answer) {
    switch (event.type) {
      case 'message.delta':
        write(event.text);
        break;
      case 'tool.started':
        screen.note(`… ${oneLine(event.tool.title)}`);
        break;
      case 'tool.finished':
        screen.note(describeTool(event.tool));
        if (event.tool.changes.length > 0) onChanged(event);
        break;
      case 'message.completed':
        finish(event.message);
        return endingOf(event.message, screen);
      case 'error':
        finish(event.message);
        screen.note(`The answer failed: ${oneLine(event.problem.detail ?? event.problem.title)}`);
        return 'failed';
    }
  }
  return 'failed';
}

/** Prints each event as a line of JSON. */
export async function showAnswerJson(
  answer: StreamedAnswer,
  print: (line: string) => void,
): Promise<AnswerOutcome> {
  let ending: AnswerOutcome = 'failed';
  for await (const event of answer) {
    print(printableJson(event, 0));
    if (event.type === 'message.completed') ending = endingOf(event.message);
  }
  return ending;
}

/** Creates a writer of lines, which are dim on a terminal unless `NO_COLOR` is set (https://no-color.org). */
export function createNoteWriter(
  stream: Writable & { isTTY?: boolean },
  env: NodeJS.ProcessEnv,
): (line: string) => void {
  const isDim = stream.isTTY === true && !env['NO_COLOR'];
  const [dim, plain] = isDim ? ['\u001B[2m', '\u001B[22m'] : ['', ''];
  return (line) => void stream.write(`${dim}${line}${plain}\n`);
}

function describeTool({ title, status, summary }: ToolCallInfo & FinishedStep['tool']): string {
  return `${status === 'done' ? '✓' : '✗'} ${oneLine(title)}: ${oneLine(summary)}`;
}

/** Describes a change of the memory. */
export function describeChange({ category, key, value, previous }: MemoryChange): string {
  const fact = oneLine(`${category}/${key}`);
  if (value === null) return `Forgotten: ${fact}: ${oneLine(previous ?? '')}`;
  const before = previous === null ? '' : ` (before: ${oneLine(previous)})`;
  return `Remembered: ${fact}: ${oneLine(value)}${before}`;
}

const ENDINGS: Readonly<Record<string, AnswerOutcome>> = {
  cancelled: 'cancelled',
  cut: 'cut',
  failed: 'failed',
};

const NOTES: Readonly<Record<AnswerOutcome, string | undefined>> = {
  completed: undefined,
  cancelled: 'The answer was cancelled.',
  cut: 'The answer was cut off because the assistant stopped.',
  failed: 'The answer failed.',
};

function endingOf({ status }: Message, screen?: Screen): AnswerOutcome {
  // A status unknown to this version counts as a failure.
  const ending = status === undefined ? 'completed' : (ENDINGS[status] ?? 'failed');
  const note = NOTES[ending];
  if (note !== undefined) screen?.note(note);
  return ending;
}

/** Screen of a conversation. Output appears above the prompt and keeps the typed text. */
export class ConversationScreen implements Screen {
  readonly #stdout: Output;
  readonly #lines: Pick<Interface, 'prompt'>;
  readonly #note: (line: string) => void;
  /** Whether the prompt is visible. */
  #hasPrompt = false;
  /** Whether the last line is incomplete. */
  #isMidLine = false;

  constructor(stdout: Output, lines: Pick<Interface, 'prompt'>, env: NodeJS.ProcessEnv) {
    this.#stdout = stdout;
    this.#lines = lines;
    this.#note = createNoteWriter(stdout, env);
  }

  text(text: string): void {
    this.#write(() => {
      this.#stdout.write(text);
      this.#isMidLine = !text.endsWith('\n');
    });
  }

  note(line: string): void {
    this.#write(() => {
      if (this.#isMidLine) this.#stdout.write('\n');
      this.#isMidLine = false;
      this.#note(line);
    });
  }

  /** Shows the prompt with the text typed so far. */
  prompt(): void {
    this.#hasPrompt = true;
    this.#lines.prompt(true);
  }

  /** Updates the state after a typed line. The cursor is then below the prompt. */
  entered(): void {
    this.#hasPrompt = false;
  }

  /** Removes the prompt before streamed output. */
  clearPrompt(): void {
    if (!this.#hasPrompt) return;
    clearLine(this.#stdout, 0);
    cursorTo(this.#stdout, 0);
    this.#hasPrompt = false;
  }

  #write(write: () => void): void {
    const hadPrompt = this.#hasPrompt;
    this.clearPrompt();
    write();
    if (hadPrompt) this.prompt();
  }
}
