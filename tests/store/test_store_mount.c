/* Tests the detection of file systems that several hosts share. Uses texts of
   /proc/self/mountinfo and magic numbers from several machines. */
#include "store/mount.h"
#include "tests/support/test.h"

#define EXT4 0xef53ul
#define OVERLAY 0x794c7630ul
#define FUSE 0x65735546ul

static const char node[] =
    "22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw\n"
    "40 22 0:41 / /home rw,relatime shared:20 - nfs4 filer:/home rw,vers=4.2\n"
    "41 22 0:42 / /scratch rw - lustre mds@tcp:/scratch rw,flock\n"
    "42 22 0:43 / /gpfs/p rw - gpfs p rw\n"
    "43 22 0:44 / /data rw master:3 propagate_from:2 - beegfs "
    "beegfs_nodev rw\n"
    "44 22 0:45 / /pool rw - ceph 10.0.0.1:6789:/ rw\n"
    "45 22 0:46 / /mnt/my\\040disk rw - fuse.sshfs me@host: rw\n"
    "46 22 8:17 / /mnt/usb rw - fuseblk /dev/sdb1 rw\n"
    "47 22 0:47 / /host rw - 9p host rw\n"
    "48 22 0:48 / /win rw - cifs //server/share rw\n"
    "49 22 0:49 / /home/local rw - xfs /dev/sdc rw\n"
    "50 22 0:50 / /merged rw - overlay overlay "
    "rw,lowerdir=/usr:/opt,upperdir=/home/me/up,workdir=/home/me/w\n"
    "51 22 0:51 / /image rw - overlay overlay "
    "rw,lowerdir=/usr,upperdir=/var/up,workdir=/var/w\n"
    "52 22 0:52 / /onread ro - overlay overlay ro,lowerdir=/scratch/a:/usr\n"
    "53 22 0:53 / /twice rw - overlay overlay rw,upperdir=/merged/x\n"
    "54 22 0:54 / /loop rw - overlay overlay rw,upperdir=/loop/x\n"
    "55 22 0:55 / /over rw - nfs filer:/x rw\n"
    "56 55 0:56 / /over rw - tmpfs tmpfs rw\n"
    "not a line of it\n"
    "57 22 0:57 / /cut rw - ";

static void assert_type(const char *expected, const char *mountinfo,
                        unsigned long magic, const char *folder)
{
    char type[ES_MOUNT_TYPE_SIZE];
    es_mount_judge(type, mountinfo, magic, folder);
    assert_string_equal(type, expected);
}

TEST(a_folder_is_judged_by_its_mount)
{
    static const struct {
        const char *folder, *type;
    } cases[] = {
        {"/home/me/runs", "nfs4"},
        {"/home", "nfs4"},
        {"/homely", ""},
        {"/home/local/runs", ""},
        {"/scratch/runs", "lustre"},
        {"/gpfs/p/a", "gpfs"},
        {"/gpfs", ""},
        {"/data", "beegfs"},
        {"/pool/a", "ceph"},
        {"/mnt/my disk/a", "fuse.sshfs"},
        {"/mnt/my", ""},
        {"/host/a", "9p"},
        {"/win", "cifs"},
        {"/tmp", ""},
        {"/over/a", ""},
        {"/cut/a", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_type(cases[i].type, node, EXT4, cases[i].folder);
}

TEST(an_overlay_is_judged_by_its_upper_folder)
{
    assert_type("nfs4", node, OVERLAY, "/merged/a");
    assert_type("", node, OVERLAY, "/image/a");
    assert_type("lustre", node, OVERLAY, "/onread");
    assert_type("nfs4", node, OVERLAY, "/twice/a");
    assert_type("", node, OVERLAY, "/loop/a");
}

TEST(magic_numbers_decide_without_mountinfo)
{
    static const struct {
        unsigned long magic;
        const char *type;
    } cases[] = {
        {0x6969, "nfs"},      {0x0bd00bd0, "lustre"},
        {0x47504653, "gpfs"}, {0x19830326, "beegfs"},
        {0x00c36400, "ceph"}, {FUSE, "fuse"},
        {0x01021997, "9p"},   {0xff534d42, "cifs"},
        {0xfe534d42, "smb3"}, {EXT4, ""},
        {OVERLAY, ""},        {0, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_type(cases[i].type, NULL, cases[i].magic, "/a");
        assert_type(cases[i].type, "", cases[i].magic, "/a");
    }
}

TEST(a_local_disk_mounted_through_fuse_is_local)
{
    assert_type("", node, FUSE, "/mnt/usb/a");
    assert_type("fuse", "1 1 8:1 / / rw - ext4 /dev/sda rw\n", FUSE, "/a");
}

TEST(this_machine_is_examined_without_a_text)
{
    char type[ES_MOUNT_TYPE_SIZE];
    char *text = es_folder_file(state, "mounts");
    es_mount_of_file(type, "/dev/shm/run.db");
    assert_string_equal(type, "");
    es_mount_of_file(type, "/no/such/folder/run.db");
    assert_string_equal(type, "");
    static const char mounts[] = "22 1 0:1 / / rw - nfs4 filer:/ rw\n";
    es_file_write(text, mounts, sizeof mounts - 1);
    setenv(ES_MOUNTINFO_VARIABLE, text, 1);
    es_mount_of_file(type, run_db);
    assert_string_equal(type, "nfs4");
    es_mount_of_file(type, "run.db");
    assert_string_equal(type, "nfs4");
    unsetenv(ES_MOUNTINFO_VARIABLE);
}

TEST_EACH(es_folder_make, es_folder_remove)
