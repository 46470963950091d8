/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Classes of frames: names that compilers and interpreters give to code of
 * runtime libraries, of packages and of the user.
 */
#include "cmd/malloc_trace/report/report_frames.h"
#include "tap.h"

#define SYSTEM  REPORT_FRAME_SYSTEM
#define PACKAGE REPORT_FRAME_PACKAGE
#define USER    REPORT_FRAME_USER

static void functions(void) {
    static const struct {
        const char *name;
        enum report_frame_class class;
    } of[] = {
        {"std::__new_allocator<char>::allocate(unsigned long, void const*)",
         SYSTEM},
        {"void std::vector<int, std::allocator<int> >::_M_realloc_insert<int>("
         "__gnu_cxx::__normal_iterator<int*, std::vector<int> >, int&&)",
         SYSTEM},
        {"std::_MakeUniq<app::node>::__single_object "
         "std::make_unique<app::node, int>(int&&)",
         SYSTEM},
        {"std::basic_ostream<char>& std::operator<< <std::char_traits<char> >("
         "std::basic_ostream<char>&, char const*)",
         SYSTEM},
        {"std::string::_M_create(unsigned long&, unsigned long)", SYSTEM},
        {"operator new(unsigned long)", SYSTEM},
        {"operator new[](unsigned long)", SYSTEM},
        {"__gnu_cxx::new_allocator<int>::allocate(unsigned long)", SYSTEM},
        {"__cxa_allocate_exception", SYSTEM},
        {"_ZNSt6vectorIcSaIcEE6resizeEm", SYSTEM},
        {"_Znwm", SYSTEM},
        {"std::vector<int> app::numbers<int>(int)", USER},
        {"app::load(std::string const&)", USER},
        {"(anonymous namespace)::fill<int>(std::vector<int>&, int)", USER},
        {"std::vector<int> (anonymous namespace)::make<int>(int)", USER},
        {"main::{lambda(std::string)#1}::operator()(std::string) const", USER},
        {"std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_invoke("
         "std::_Any_data const&, int&&)",
         USER}, /* no file is known, and the lambda may be inlined */
        {"std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_manager"
         "(std::_Any_data&, std::_Any_data const&)",
         SYSTEM},
        {"std::_Function_handler<bool (char), std::__detail::_AnyMatcher<"
         "std::regex_traits<char> > >::_M_invoke(std::_Any_data const&)",
         SYSTEM},
        {"std::thread::_State_impl<std::thread::_Invoker<std::tuple<"
         "main::{lambda()#1}> > >::_M_run()",
         USER},
        {"std::thread::_M_start_thread(std::unique_ptr<std::thread::_State>)",
         SYSTEM},
        {"std::sys::backtrace::__rust_begin_short_backtrace", USER},
        {"std::thread::Thread::new", SYSTEM},
        {"app::operator<<(std::ostream&, app::node const&)", USER},
        {"app::node::operator new(unsigned long)", SYSTEM},
        {"app::pool<int>::operator new[](unsigned long)", SYSTEM},
        {"core::engine::load(int)", USER},
        {"alloc::pool::grow(unsigned long)", USER},
        {"standard::load()", USER},
        {"alloc::raw_vec::RawVec<T,A>::reserve::do_reserve_and_handle", SYSTEM},
        {"core::ops::function::FnOnce::call_once", SYSTEM},
        {"hashbrown::raw::RawTable<T,A>::reserve_rehash", SYSTEM},
        {"panic_unwind::real_imp::panic", SYSTEM},
        {"rust_panic", SYSTEM},
        {"std::rt::lang_start::{{closure}}", SYSTEM},
        {"<alloc::vec::Vec<T> as core::clone::Clone>::clone", SYSTEM},
        {"<alloc::string::String as core::convert::From<&str>>::from", SYSTEM},
        {"<&mut alloc::vec::Vec<u8> as std::io::Write>::write", SYSTEM},
        {"<T as alloc::slice::hack::ConvertVec>::to_vec", SYSTEM},
        {"<str as alloc::string::ToString>::to_string", SYSTEM},
        {"<app::Node as core::clone::Clone>::clone", USER},
        {"<dyn app::Shape as core::fmt::Debug>::fmt", USER},
        {"app::Tree<T>::insert", USER},
        {"_RNvNtCslNYArtu3iFV_5alloc5alloc5alloc", SYSTEM},
        {"_RNCNvNtCsjrHSEGnQ3l9_3std2rt19lang_start_internal0B5_", SYSTEM},
        {"_RNvXs_NtCslNYArtu3iFV_5alloc5allocNtB4_6GlobalNtNtCsgEmfK2I_4core",
         SYSTEM},
        {"_RNCNvCs4fqI2P2rA04_3app4main0B3_", USER},
        {"_RNvC6_123foo3bar", USER},
        {"__rust_alloc", SYSTEM},
        {"__rdl_alloc_zeroed", SYSTEM},
        {"xmalloc", SYSTEM},
        {"SDL_strdup", SYSTEM},
        {"xmlStrndup", SYSTEM},
        {"strdup_or_die", SYSTEM},
        {"safe_malloc", SYSTEM},
        {"xstrdup", SYSTEM},
        {"g_strdup", SYSTEM},
        {"g_malloc0_n", SYSTEM},
        {"sqlite3MemMalloc", SYSTEM},
        {"x2realloc", SYSTEM},
        {"monoeg_try_malloc", SYSTEM},
        {"do_xmalloc", SYSTEM},
        {"my_malloc", SYSTEM},
        {"gmalloc", SYSTEM},
        {"x264_malloc", SYSTEM},
        {"av_buffer_allocz", SYSTEM},
        {"CRYPTO_clear_realloc", SYSTEM},
        {"lt__zalloc", SYSTEM},
        {"PORT_ZAlloc", SYSTEM},
        {"MagickMalloc", SYSTEM},
        {"ResizeMagickMemory", SYSTEM},
        {"g_memdup2", SYSTEM},
        {"_emalloc_1024", SYSTEM},
        {"gv_alloc", SYSTEM},
        {"xmalloc.part.0", SYSTEM},
        {"xpalloc.constprop.0", SYSTEM},
        {"WTF::Partitions::FastMalloc(unsigned long, char const*)", SYSTEM},
        {"app::node* app::zalloc<app::node>(unsigned long)", SYSTEM},
        {"app::(anonymous namespace)::xstrdup(char const*)", SYSTEM},
        {"app::pool<T>::realloc", SYSTEM},
        {"llvm::User::operator new(unsigned long, unsigned int)", SYSTEM},
        {"llvm::SmallVectorBase<unsigned int>::grow_pod(void*, unsigned long)",
         SYSTEM},
        {"QArrayData::allocate1(QArrayData**, long long)", SYSTEM},
        {"v8::internal::AllocAtLeastWithRetry(unsigned long)", SYSTEM},
        {"v8::internal::AllocationSite::New(v8::internal::Isolate*)", USER},
        {"test_realloc", USER},
        {"app::Bench::RunMalloc(int)", SYSTEM},
        {"app::BenchMalloc(int)", USER},
        {"leak_by_strdup", USER},
        {"main_alloc_table", USER},
        {"allocate_sessions", USER},
        {"after_malloc_hook", USER},
        {"itemalloc", USER},
        {"DocAlloc", USER},
        {"FUNCALLOC", USER},
        {"app::palloc(int)", USER},
        {"app::load<&(app::malloc(unsigned long))>(int)", USER},
        {"sqlite3_step", USER},
        {"os::malloc(unsigned long, MEMFLAGS)", SYSTEM},
        {"os::start_thread(Thread*)", USER},
        {"getline", SYSTEM},
        {"strdup", SYSTEM},
        {"__libc_start_call_main", SYSTEM},
        {"_start", SYSTEM},
        {"main", USER},
        {"xml_parse", USER},
        {"strdup_all", USER},
        {"mallocator", USER},
        {"g_hash_table_insert", USER},
        {"allocate", USER},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(of); i++) {
        const struct symbol_name n = {.function = of[i].name,
                                      .module = "/home/u/app"};
        tap_ok(report_frame_class(&n, false) == of[i].class, "%s", of[i].name);
    }
}

static void modules(void) {
    static const struct {
        const char *path;
        bool interpreted;
        enum report_frame_class class;
    } of[] = {
        {"/lib/x86_64-linux-gnu/libc.so.6", false, SYSTEM},
        {"/lib64/ld-linux-x86-64.so.2", false, SYSTEM},
        {"/usr/lib/libstdc++.so.6", false, SYSTEM},
        {"/usr/lib/libcrypto.so.3", false, USER},
        {"/usr/lib/libcx.so", false, USER},
        {"/usr/bin/python3.11", false, USER},
        {"/usr/bin/python3.11", true, SYSTEM},
        {"/usr/lib/libpython3.11.so.1.0", true, SYSTEM},
        {"/usr/bin/perl", true, SYSTEM},
        {"/home/u/pythonic.so", true, USER},
        {"/v/lib/python3.11/lib-dynload/_lzma.so", true, SYSTEM},
        {"/v/lib/python3.11/site-packages/numpy/core/x.so", true, PACKAGE},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(of); i++) {
        const struct symbol_name n = {.function = "f", .module = of[i].path};
        tap_ok(report_frame_class(&n, of[i].interpreted) == of[i].class, "%s",
               of[i].path);
    }
}

static void files(void) {
    static const struct {
        const char *path;
        uint8_t language;
        enum report_frame_class class;
    } of[] = {
        {"/usr/lib/python3.11/json/decoder.py", MTF_LANGUAGE_PYTHON, SYSTEM},
        {"/usr/lib64/python3.9/json/decoder.py", MTF_LANGUAGE_PYTHON, SYSTEM},
        {"<frozen importlib._bootstrap>", MTF_LANGUAGE_PYTHON, SYSTEM},
        {"/u/venv/lib/python3.11/site-packages/requests/api.py",
         MTF_LANGUAGE_PYTHON, PACKAGE},
        {"/usr/lib/python3/dist-packages/yaml/__init__.py", MTF_LANGUAGE_PYTHON,
         PACKAGE},
        {"/home/u/app.py", MTF_LANGUAGE_PYTHON, USER},
        {"/home/u/lib/app.py", MTF_LANGUAGE_PYTHON, USER},
        {"/home/u/lib/pythonic/app.py", MTF_LANGUAGE_PYTHON, USER},
        {"<string>", MTF_LANGUAGE_PYTHON, PACKAGE},
        {"<stdin>", MTF_LANGUAGE_PYTHON, USER},
        {NULL, MTF_LANGUAGE_PYTHON, USER},
        {"/usr/share/perl/5.36.0/File/Temp.pm", MTF_LANGUAGE_PERL, SYSTEM},
        {"/usr/lib/x86_64-linux-gnu/perl-base/Carp.pm", MTF_LANGUAGE_PERL,
         SYSTEM},
        {"/usr/share/perl5/JSON.pm", MTF_LANGUAGE_PERL, PACKAGE},
        {"script.pl", MTF_LANGUAGE_PERL, USER},
        {"/usr/lib/ruby/3.1.0/json.rb", MTF_LANGUAGE_RUBY, SYSTEM},
        {"<internal:kernel>", MTF_LANGUAGE_RUBY, SYSTEM},
        {"/var/lib/gems/3.1.0/gems/rack-2.2/lib/rack.rb", MTF_LANGUAGE_RUBY,
         PACKAGE},
        {"/usr/include/c++/12/bits/stl_vector.h", 0, SYSTEM},
        {"/rustc/90c5418/library/alloc/src/vec/mod.rs", 0, SYSTEM},
        {"/home/u/.cargo/registry/src/x/serde_json-1.0/src/de.rs", 0, PACKAGE},
        {"/home/u/vector.cpp", 0, USER},
    };
    for (size_t i = 0; i < TCM_ARRAY_SIZE(of); i++) {
        const struct symbol_name n = {.function = "f",
                                      .file = of[i].path,
                                      .line = 1,
                                      .language = of[i].language,
                                      .module =
                                          of[i].language == 0 ? "/app" : NULL};
        tap_ok(report_frame_class(&n, true) == of[i].class, "%s",
               of[i].path == NULL ? "no file" : of[i].path);
    }
    tap_ok(report_frame_class(&(struct symbol_name){.special = "(deeper)"},
                              false) == SYSTEM,
           "no frame");
}

int main(void) {
    functions();
    modules();
    files();
    return tap_done();
}
