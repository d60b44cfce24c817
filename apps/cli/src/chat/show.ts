import { clearLine, cursorTo, type Interface } from 'node:readline';
import { type Writable } from 'node:stream';
import {
  type Answer,
  type MemoryChange,
  type Message,
  type Tool,
  type TurnEvent,
} from '@oselya/chat-client';
import { type Output } from '../command.ts';
import { oneLine, printableJson, printableText } from '../terminal.ts';

/** Where an answer is shown. */
export type Screen = {
  /** The answer's own text, as it comes. */
  text: (text: string) => void;
  /** A line about what happens. */
  note: (line: string) => void;
};

/** A tool that has been run, with its session. */
export type FinishedStep = Extract<TurnEvent, { type: 'tool.finished' }>;

/** How an answer ended. */
export type Ending = 'completed' | 'cancelled' | 'cut' | 'failed';

/**
 * Shows an answer as it comes: its text as it is but for what would act on the terminal, and each step of its
 * tools in a line.
 * @param onChanged Is given each step that changed what is remembered, after its line.
 * @throws ChatError where it cannot be followed to its end.
 */
export async function show(
  answer: Answer,
  screen: Screen,
  onChanged: (step: FinishedStep) => void = () => undefined,
): Promise<Ending> {
  let shown = '';
  /** The first half of a character whose second half is still to come. */
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
    // What was lost with a connection stands in what is stored.
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

/** Prints what happens as JSON, one event a line. */
export async function showJson(answer: Answer, print: (line: string) => void): Promise<Ending> {
  let ending: Ending = 'failed';
  for await (const event of answer) {
    print(printableJson(event, 0));
    if (event.type === 'message.completed') ending = endingOf(event.message);
  }
  return ending;
}

/** Lines on a stream, dim where it is a terminal and nobody asked for no colours. https://no-color.org */
export function notesOn(
  stream: Writable & { isTTY?: boolean },
  env: NodeJS.ProcessEnv,
): (line: string) => void {
  const isDim = stream.isTTY === true && !env['NO_COLOR'];
  const [dim, plain] = isDim ? ['\u001B[2m', '\u001B[22m'] : ['', ''];
  return (line) => void stream.write(`${dim}${line}${plain}\n`);
}

function describeTool({ title, status, summary }: Tool & FinishedStep['tool']): string {
  return `${status === 'done' ? '✓' : '✗'} ${oneLine(title)}: ${oneLine(summary)}`;
}

/** What is remembered, or no more, by a change. */
export function describeChange({ category, key, value, previous }: MemoryChange): string {
  const fact = oneLine(`${category}/${key}`);
  if (value === null) return `Forgotten: ${fact}: ${oneLine(previous ?? '')}`;
  const before = previous === null ? '' : ` (before: ${oneLine(previous)})`;
  return `Remembered: ${fact}: ${oneLine(value)}${before}`;
}

const ENDINGS: Readonly<Record<string, Ending>> = {
  cancelled: 'cancelled',
  cut: 'cut',
  failed: 'failed',
};

const NOTES: Readonly<Record<Ending, string | undefined>> = {
  completed: undefined,
  cancelled: 'The answer was cancelled.',
  cut: 'The answer was cut off when the assistant stopped.',
  failed: 'The answer failed.',
};

function endingOf({ status }: Message, screen?: Screen): Ending {
  // A status of a later version says at least that it is not whole.
  const ending = status === undefined ? 'completed' : (ENDINGS[status] ?? 'failed');
  const note = NOTES[ending];
  if (note !== undefined) screen?.note(note);
  return ending;
}

/** The screen of a conversation: what is shown stands above the prompt, and what was typed there is kept. */
export class ConversationScreen implements Screen {
  readonly #stdout: Output;
  readonly #lines: Pick<Interface, 'prompt'>;
  readonly #note: (line: string) => void;
  /** Whether the person may be typing after a prompt. */
  #hasPrompt = false;
  /** Whether the last line on the screen is not ended. */
  #isMidLine = false;

  constructor(stdout: Output, lines: Pick<Interface, 'prompt'>, env: NodeJS.ProcessEnv) {
    this.#stdout = stdout;
    this.#lines = lines;
    this.#note = notesOn(stdout, env);
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

  /** Shows the prompt, with what was typed already. */
  prompt(): void {
    this.#hasPrompt = true;
    this.#lines.prompt(true);
  }

  /** A line was typed: the cursor stands below the prompt. */
  entered(): void {
    this.#hasPrompt = false;
  }

  /** Takes the prompt away, for what comes piece by piece. */
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
