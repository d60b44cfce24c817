import { Button, Group, Text, TextInput } from '@mantine/core';
import type { ReactNode } from 'react';
import { usePartMessages } from '../i18n/part.ts';
import { words } from '../i18n/words.ts';
import { Modal } from '../shell/modal.ts';
import { ProblemNotice } from '../shell/problem.tsx';

/** Window over the page. */
export function Dialog(props: {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  children: ReactNode;
}) {
  const { isOpen, onClose, title, children } = props;
  const { close } = usePartMessages(words);
  return (
    <Modal
      opened={isOpen}
      onClose={onClose}
      title={title}
      closeButtonProps={{ 'aria-label': close }}
      attributes={PLAIN_HEADER}
    >
      {children}
    </Modal>
  );
}

/** Attributes of overlays: their header is not that of the page. */
export const PLAIN_HEADER = { header: { role: 'presentation' } };

type ConfirmProps = {
  isOpen: boolean;
  onClose: () => void;
  title: string;
  text: string;
  /** Name of the action. */
  action: string;
  onConfirm: () => void;
  isPending: boolean;
  isDisabled?: boolean;
  error: unknown;
  children?: ReactNode;
};

/** Asks before something that cannot be undone. */
export function Confirm(props: ConfirmProps) {
  const { isOpen, onClose, title, text, action, onConfirm, isPending, isDisabled, error } = props;
  const { cancel } = usePartMessages(words);
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title={title}>
      <Text size="sm">{text}</Text>
      {props.children}
      {error !== null && error !== undefined && <ProblemNotice error={error} />}
      <Group justify="end" mt="md">
        <Button variant="default" onClick={onClose} data-autofocus>
          {cancel}
        </Button>
        <Button color="red" loading={isPending} disabled={isDisabled === true} onClick={onConfirm}>
          {action}
        </Button>
      </Group>
    </Dialog>
  );
}

type NameDialogProps = Pick<
  ConfirmProps,
  'isOpen' | 'onClose' | 'title' | 'isPending' | 'error'
> & {
  name?: string | undefined;
  maxLength: number;
  onSave: (name: string) => void;
};

/** Asks for a name. */
export function NameDialog(props: NameDialogProps) {
  const { isOpen, onClose, title, name, maxLength, onSave, isPending, error } = props;
  const texts = usePartMessages(words);
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title={title}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          onSave(readField(event.currentTarget, 'name'));
        }}
      >
        <TextInput
          name="name"
          label={texts.name}
          defaultValue={name}
          maxLength={maxLength}
          required
          data-autofocus
        />
        {error !== null && error !== undefined && <ProblemNotice error={error} />}
        <Group justify="end" mt="md">
          <Button type="submit" loading={isPending}>
            {texts.save}
          </Button>
        </Group>
      </form>
    </Dialog>
  );
}

/** Returns the text of a field without spaces around it. */
export function readField(form: HTMLFormElement, name: string): string {
  const value = new FormData(form).get(name);
  return typeof value === 'string' ? value.trim() : '';
}
