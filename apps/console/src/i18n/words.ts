import type { PartMessages } from './part.ts';

const en = {
  save: 'Save',
  cancel: 'Cancel',
  remove: 'Delete',
  rename: 'Rename',
  edit: 'Edit',
  add: 'Add',
  close: 'Close',
  undo: 'Undo',
  name: 'Name',
  showMore: 'Show more',
};

const uk: typeof en = {
  save: 'Зберегти',
  cancel: 'Скасувати',
  remove: 'Видалити',
  rename: 'Перейменувати',
  edit: 'Змінити',
  add: 'Додати',
  close: 'Закрити',
  undo: 'Скасувати',
  name: 'Назва',
  showMore: 'Показати ще',
};

const ru: typeof en = {
  save: 'Сохранить',
  cancel: 'Отмена',
  remove: 'Удалить',
  rename: 'Переименовать',
  edit: 'Изменить',
  add: 'Добавить',
  close: 'Закрыть',
  undo: 'Отменить',
  name: 'Название',
  showMore: 'Показать ещё',
};

/** Words that several parts of the console use. */
export const words = { en, uk, ru } satisfies PartMessages<typeof en>;
