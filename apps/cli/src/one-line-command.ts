import { Command, type ErrorOptions, type HelpContext } from 'commander';
import { oneLine } from './terminal.ts';

/**
 * A command whose every wrong use is one line that says what is wrong and which help to read: Commander
 * writes a hint on a line of its own, and the whole help where a command is missing. Contract 1.
 */
export class OneLineCommand extends Command {
  override createCommand(name?: string): OneLineCommand {
    return new OneLineCommand(name);
  }

  override error(message: string, options?: ErrorOptions): never {
    const wrong = oneLine(message)
      .replace(/^error: /, '')
      .replace(/\.$/, '');
    return super.error(`oselya: ${wrong}: see ${this.path()} --help`, options);
  }

  /** Commander shows the help as an error in this one case. */
  override helpInformation(context?: HelpContext): string {
    if (context?.error) this.error('a command is missing');
    return super.helpInformation(context);
  }

  private path(): string {
    return this.parent instanceof OneLineCommand
      ? `${this.parent.path()} ${this.name()}`
      : this.name();
  }
}
