/** Why a form was not acted upon, in words for whoever sent it. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  /** The HTTP status to answer with. */
  readonly statusCode: number;

  constructor(statusCode: number, message: string) {
    super(message);
    this.statusCode = statusCode;
  }
}
