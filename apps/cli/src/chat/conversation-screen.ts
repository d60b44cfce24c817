import { clearLine, cursorTo, type Interface } from 'node:readline';
import type { Output } from '../command.ts';
import { notesOn, type Screen } from './show.ts';

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
