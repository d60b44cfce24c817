import { clearLine, cursorTo, type Interface } from 'node:readline';
import { styleText } from 'node:util';
import {
  type AnswerEvent,
  describeProblem,
  type MemoryChange,
  type Message,
  type StreamedAnswer,
} from '@oselya/chat-client';
import { formatJson } from '@oselya/inventory/text';
import type { Output } from '../command.ts';
import { sanitizeLine, sanitizeText } from '../terminal.ts';

type Screen = {
  writeText: (text: string) => void;
  writeNote: (line: string) => void;
};

export type ToolFinishedEvent = Extract<AnswerEvent, { type: 'tool.finished' }>;

type AnswerOutcome = 'completed' | 'cancelled' | 'cut' | 'failed';

/**
 * Streams an answer to the screen: its printable text, and a line for the start and the end of each tool call.
 * @param onChanged Called with the event of each tool call that changed the memory.
 * @throws ChatError if the message is rejected, or if the connection ends before the answer.
 */
export async function showAnswer(
  answer: StreamedAnswer,
  screen: Screen,
  onChanged: (event: ToolFinishedEvent) => void = () => undefined,
): Promise<AnswerOutcome> {
  let shownText = '';
  /** First half of a surrogate pair that a later event may complete. */
  let pendingSurrogate = '';

  function write(text: string): void {
    shownText += text;
    const joinedText = pendingSurrogate + text;
    pendingSurrogate = /[\uD800-\uDBFF]$/.exec(joinedText)?.[0] ?? '';
    const printableText = sanitizeText(
      joinedText.slice(0, joinedText.length - pendingSurrogate.length),
    );
    if (printableText !== '') screen.writeText(printableText);
  }

  function finishOutput(storedMessage: Message | undefined): void {
    const content = storedMessage?.content ?? '';
    // The stored message may contain text that was lost with the connection.
    if (content.startsWith(shownText)) write(content.slice(shownText.length));
    else if (!shownText.startsWith(content)) write(`\n\n${content}`);
    if (shownText !== '') screen.writeText('\n');
  }

  for await (const event of answer) {
    switch (event.type) {
      case 'message.delta':
        write(event.text);
        break;
      case 'tool.started':
        screen.writeNote(`… ${sanitizeLine(event.tool.title)}`);
        break;
      case 'tool.finished': {
        const { status, title, summary, changes } = event.tool;
        screen.writeNote(
          `${status === 'done' ? '✓' : '✗'} ${sanitizeLine(title)}: ${sanitizeLine(summary)}`,
        );
        if (changes.length > 0) onChanged(event);
        break;
      }
      case 'message.completed': {
        finishOutput(event.message);
        const outcome = getOutcome(event.message);
        const outcomeNote = OUTCOME_NOTES[outcome];
        if (outcomeNote !== undefined) screen.writeNote(outcomeNote);
        return outcome;
      }
      case 'error':
        finishOutput(event.message);
        screen.writeNote(`The answer failed: ${sanitizeLine(describeProblem(event.problem))}`);
        return 'failed';
    }
  }
  return 'failed';
}

/** Prints each event as one line of JSON. @throws ChatError as `showAnswer` does. */
export async function showAnswerJson(
  answer: StreamedAnswer,
  print: (line: string) => void,
): Promise<AnswerOutcome> {
  let outcome: AnswerOutcome = 'failed';
  for await (const event of answer) {
    print(formatJson(event));
    if (event.type === 'message.completed') outcome = getOutcome(event.message);
  }
  return outcome;
}

const OUTCOME_NOTES: Readonly<Record<AnswerOutcome, string | undefined>> = {
  completed: undefined,
  cancelled: 'The answer was cancelled.',
  cut: 'The answer was cut off because the assistant stopped.',
  failed: 'The answer failed.',
};

function getOutcome({ status }: Message): AnswerOutcome {
  if (status === undefined) return 'completed';
  // A status unknown to this version counts as a failure.
  return status === 'cancelled' || status === 'cut' ? status : 'failed';
}

/** Creates a writer of lines, which are dim on a terminal unless `NO_COLOR` has a value (https://no-color.org). */
export function createNoteWriter(stream: Output, env: NodeJS.ProcessEnv): (line: string) => void {
  const isDim = stream.isTTY === true && !env['NO_COLOR'];
  return (line) => {
    const text = isDim ? styleText('dim', line, { validateStream: false }) : line;
    stream.write(`${text}\n`);
  };
}

/** Returns a memory change as one printable line. */
export function describeChange({ category, key, value, previous }: MemoryChange): string {
  const fact = sanitizeLine(`${category}/${key}`);
  if (value === null) return `Forgotten: ${fact}: ${sanitizeLine(previous ?? '')}`;
  const previousNote = previous === null ? '' : ` (before: ${sanitizeLine(previous)})`;
  return `Remembered: ${fact}: ${sanitizeLine(value)}${previousNote}`;
}

/** Screen of a conversation. Output appears above the prompt and keeps the typed text. */
export class ConversationScreen implements Screen {
  readonly #stdout: Output;
  readonly #terminal: Pick<Interface, 'prompt'>;
  readonly #writeDimLine: (line: string) => void;
  #hasPrompt = false;
  #isMidLine = false;

  constructor(stdout: Output, terminal: Pick<Interface, 'prompt'>, env: NodeJS.ProcessEnv) {
    this.#stdout = stdout;
    this.#terminal = terminal;
    this.#writeDimLine = createNoteWriter(stdout, env);
  }

  writeText(text: string): void {
    this.#writeAbovePrompt(() => {
      this.#stdout.write(text);
      this.#isMidLine = !text.endsWith('\n');
    });
  }

  writeNote(line: string): void {
    this.#writeAbovePrompt(() => {
      if (this.#isMidLine) this.#stdout.write('\n');
      this.#isMidLine = false;
      this.#writeDimLine(line);
    });
  }

  /** Shows the prompt with the text typed so far. */
  showPrompt(): void {
    this.#hasPrompt = true;
    this.#terminal.prompt(true);
  }

  /** Records that the user entered a line, which moved the cursor below the prompt. */
  onEnter(): void {
    this.#hasPrompt = false;
  }

  /** Clears the prompt before streamed output. */
  clearPrompt(): void {
    if (!this.#hasPrompt) return;
    clearLine(this.#stdout, 0);
    cursorTo(this.#stdout, 0);
    this.#hasPrompt = false;
  }

  #writeAbovePrompt(write: () => void): void {
    const hadPrompt = this.#hasPrompt;
    this.clearPrompt();
    write();
    if (hadPrompt) this.showPrompt();
  }
}
