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

  /** Commander shows the help where a command is missing, and `--help` of the parent where it is unknown. */
  override helpInformation(context?: HelpContext): string {
    if (context?.error) this.error('a command is missing');
    const [first = '-'] = this.args;
    if (this.commands.length > 0 && !first.startsWith('-'))
      this.error(`unknown command '${first}'`);
    return super.helpInformation(context);
  }

  private path(): string {
    return this.parent instanceof OneLineCommand
      ? `${this.parent.path()} ${this.name()}`
      : this.name();
  }
}
