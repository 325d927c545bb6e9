// SPDX-License-Identifier: MIT OR GPL-2.0
/* /dev/poll with hints: an interest set kept in the kernel, one for each open file of the device.
 *
 *   write(pollfd[]) ──► items ◄──hint── wake-up of the descriptor's wait queue
 *                         │
 *   ioctl(DP_POLL) ──► scan all: hinted, or ready in the last scan? ──► ask the file ──► pollfd[]
 *                                neither: the last scan's result, not ready, still holds
 *
 * A hint means that something changed, not what. It counts only as a change towards ready: a file
 * that was not ready stays so until a hint, a file that was ready is asked again in each scan.
 * The scan touches each item, so a call still costs something for each descriptor watched.
 * Left out of the original: the result area shared by mmap.
 *
 * Source: Provos, Lever 2000, "Scalable network I/O in Linux", sections 3 and 4.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/xarray.h>

#include "dev_poll.h"

/* One open file of the device. */
struct interest_set {
    struct mutex lock; /* items, by_fd */
    struct list_head items;
    struct xarray by_fd;
    wait_queue_head_t waiters;
    bool changed; /* hinted since the last scan began */
};

/* One watched descriptor; holds its file open. */
struct item {
    struct list_head link;
    struct interest_set *set;
    struct file *file;
    int fd;
    __poll_t wanted;
    bool hinted;
    bool was_ready;
    wait_queue_entry_t hook;
    wait_queue_head_t *hooked_on; /* NULL: the file has no wait queue, or not any more */
    poll_table table;
};

static const struct file_operations device_operations;

static int hint(wait_queue_entry_t *hook, unsigned int mode, int flags, void *key)
{
    struct item *item = container_of(hook, struct item, hook);
    __poll_t events = key_to_poll(key);

    WRITE_ONCE(item->hinted, true);
    if (events & POLLFREE) {
        /* The queue goes away before the file does. */
        list_del_init(&hook->entry);
        smp_store_release(&item->hooked_on, NULL);
    }
    if (!events || (events & item->wanted)) {
        WRITE_ONCE(item->set->changed, true);
        wake_up(&item->set->waiters);
    }
    return 0;
}

/* A file may have several queues; only the first is hooked on, which is all that sockets have. */
static void hook_on(struct file *file, wait_queue_head_t *queue, poll_table *table)
{
    struct item *item = container_of(table, struct item, table);

    if (item->hooked_on) {
        return;
    }
    item->hooked_on = queue;
    add_wait_queue(queue, &item->hook);
}

static void remove_item(struct interest_set *set, struct item *item)
{
    wait_queue_head_t *queue;

    /* A queue that is being freed is freed after a grace period only. */
    rcu_read_lock();
    queue = smp_load_acquire(&item->hooked_on);
    if (queue) {
        remove_wait_queue(queue, &item->hook);
    }
    rcu_read_unlock();
    xa_erase(&set->by_fd, item->fd);
    list_del(&item->link);
    fput(item->file);
    kfree(item);
}

/* Takes the reference to *file*. */
static int add_item(struct interest_set *set, struct file *file, const struct pollfd *change)
{
    struct item *item;
    int err = -EINVAL;

    if (file->f_op == &device_operations || !file_can_poll(file)) {
        goto put;
    }
    err = -ENOMEM;
    item = kzalloc(sizeof(*item), GFP_KERNEL);
    if (!item) {
        goto put;
    }
    item->set = set;
    item->file = file;
    item->fd = change->fd;
    item->wanted = demangle_poll(change->events) | EPOLLERR | EPOLLHUP;
    item->hinted = true;
    init_waitqueue_func_entry(&item->hook, hint);
    err = xa_err(xa_store(&set->by_fd, item->fd, item, GFP_KERNEL));
    if (err) {
        kfree(item);
        goto put;
    }
    list_add_tail(&item->link, &set->items);
    init_poll_funcptr(&item->table, hook_on);
    vfs_poll(file, &item->table);
    return 0;
put:
    fput(file);
    return err;
}

static int apply_change(struct interest_set *set, const struct pollfd *change)
{
    struct item *item = xa_load(&set->by_fd, change->fd);
    struct file *file;

    if (change->events & DEV_POLL_REMOVE) {
        if (!item) {
            return -ENOENT;
        }
        remove_item(set, item);
        return 0;
    }
    file = fget(change->fd);
    if (item && item->file != file) {
        /* Closed without having been removed, and the number is used again. */
        remove_item(set, item);
        item = NULL;
    }
    if (!file) {
        return -EBADF;
    }
    if (!item) {
        return add_item(set, file, change);
    }
    fput(file);
    item->wanted = demangle_poll(change->events) | EPOLLERR | EPOLLHUP;
    WRITE_ONCE(item->hinted, true);
    return 0;
}

static ssize_t device_write(struct file *file, const char __user *buffer, size_t n_bytes,
                            loff_t *offset)
{
    struct interest_set *set = file->private_data;
    struct pollfd change;
    size_t done;
    int err = 0;

    if (n_bytes % sizeof(change)) {
        return -EINVAL;
    }
    mutex_lock(&set->lock);
    for (done = 0; done < n_bytes; done += sizeof(change)) {
        err = copy_from_user(&change, buffer + done, sizeof(change)) ? -EFAULT
                                                                     : apply_change(set, &change);
        if (err) {
            break;
        }
    }
    mutex_unlock(&set->lock);
    return done ? done : err;
}

/* The state of an item, asked of its file only if it may have changed. */
static __poll_t ready_of(struct item *item)
{
    __poll_t ready;

    if (!item->was_ready && !READ_ONCE(item->hinted)) {
        return 0;
    }
    /* Before the file is asked: a hint that comes meanwhile is for the next scan. */
    WRITE_ONCE(item->hinted, false);
    smp_mb();
    ready = vfs_poll(item->file, NULL) & item->wanted;
    item->was_ready = ready != 0;
    return ready;
}

/* Fill *fds* from the set; the next scan begins behind the last that had room. */
static int scan(struct interest_set *set, struct pollfd __user *fds, int n_max)
{
    struct item *item;
    int n = 0;

    list_for_each_entry(item, &set->items, link)
    {
        __poll_t ready = ready_of(item);
        struct pollfd found = {.fd = item->fd, .revents = mangle_poll(ready)};

        if (!ready) {
            continue;
        }
        if (copy_to_user(&fds[n], &found, sizeof(found))) {
            return -EFAULT;
        }
        if (++n == n_max) {
            list_rotate_to_front(&set->items, &item->link);
            list_rotate_left(&set->items);
            break;
        }
    }
    return n;
}

static int wait_ready(struct interest_set *set, const struct dvpoll *call)
{
    struct pollfd __user *fds = u64_to_user_ptr(call->dp_fds);
    ktime_t timeout = ms_to_ktime(max(call->dp_timeout, 0));
    DEFINE_WAIT(wait);
    int n, expired = call->dp_timeout == 0;

    if (call->dp_nfds < 1) {
        return -EINVAL;
    }
    for (;;) {
        WRITE_ONCE(set->changed, false);
        mutex_lock(&set->lock);
        n = scan(set, fds, call->dp_nfds);
        mutex_unlock(&set->lock);
        if (n != 0 || expired) {
            break;
        }
        if (signal_pending(current)) {
            n = -EINTR;
            break;
        }
        prepare_to_wait(&set->waiters, &wait, TASK_INTERRUPTIBLE);
        if (!READ_ONCE(set->changed) &&
            !schedule_hrtimeout(call->dp_timeout < 0 ? NULL : &timeout, HRTIMER_MODE_REL)) {
            expired = 1;
        }
        __set_current_state(TASK_RUNNING);
    }
    finish_wait(&set->waiters, &wait);
    return n;
}

static long device_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
    struct dvpoll call;

    if (command != DP_POLL) {
        return -ENOTTY;
    }
    if (copy_from_user(&call, (void __user *)argument, sizeof(call))) {
        return -EFAULT;
    }
    return wait_ready(file->private_data, &call);
}

static int device_open(struct inode *inode, struct file *file)
{
    struct interest_set *set = kzalloc(sizeof(*set), GFP_KERNEL);

    if (!set) {
        return -ENOMEM;
    }
    mutex_init(&set->lock);
    INIT_LIST_HEAD(&set->items);
    xa_init(&set->by_fd);
    init_waitqueue_head(&set->waiters);
    file->private_data = set;
    return nonseekable_open(inode, file);
}

static int device_release(struct inode *inode, struct file *file)
{
    struct interest_set *set = file->private_data;
    struct item *item, *next;

    list_for_each_entry_safe(item, next, &set->items, link) remove_item(set, item);
    xa_destroy(&set->by_fd);
    kfree(set);
    return 0;
}

static const struct file_operations device_operations = {
    .owner = THIS_MODULE,
    .open = device_open,
    .release = device_release,
    .write = device_write,
    .unlocked_ioctl = device_ioctl,
};

static struct miscdevice device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "poll",
    .fops = &device_operations,
    .mode = 0666,
};

module_misc_device(device);
MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("/dev/poll with hints");
